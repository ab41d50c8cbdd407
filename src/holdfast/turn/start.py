"""A new run: its first row, and its row in the store."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from holdfast.core import events as e
from holdfast.core.doing import encode_doing, not_begun
from holdfast.core.instants import LONGEST_KEPT, kept_instant
from holdfast.core.references import references_of
from holdfast.core.turn import FORMAT, Row, Turn, checksum, encode_turn, genesis, micros
from holdfast.errors import InvalidDuration
from holdfast.ports.blobs import BlobData
from holdfast.ports.inbox import Message
from holdfast.ports.runs import Joining, NewRun, Replaced


def new_run(
    run_id: str,
    started: e.Started,
    at: datetime,
    *,
    blobs: Mapping[str, BlobData] | None = None,
    needs: tuple[str, ...] = (),
    references: tuple[str, ...] = (),
    input_hash: str = "",
    watcher: tuple[str, str] | None = None,
    adopted: e.Adopted | None = None,
    unique: str = "",
    rides: bool = False,
    replaces: Replaced | None = None,
    joins: Joining | None = None,
    message: Message | None = None,
) -> tuple[NewRun, Turn]:
    """A new run: its first row, and its row in the store. `references`: what to keep for it besides what its first
    events refer to."""
    if started.available_at is not None or started.deadline is not None or started.keep is not None:
        started = _kept(started)
    events: tuple[e.AnyEvent, ...] = (started,) if adopted is None else (started, adopted)
    body = encode_turn(events)
    stamp = micros(at)
    digest = checksum(genesis(run_id), 1, 0, stamp, body)
    turn = Turn(run_id, 1, 0, at, events, digest)
    begins_at = started.available_at or at
    new = NewRun(
        row=Row(run_id, 1, 0, stamp, FORMAT, digest, body),
        started=msgspec.structs.replace(started, root=started.root or run_id, available_at=begins_at),
        doing=encode_doing(not_begun(started.workflow, begins_at, started.after)),
        input_hash=input_hash,
        blobs=tuple((blobs or {}).items()),
        needs=needs,
        references=tuple(dict.fromkeys((*references_of(events), *references))),
        watcher=watcher,
        unique=unique,
        rides=rides,
        replaces=replaces,
        joins=joins,
        message=message,
    )
    return new, turn


def succeeding(new: NewRun, turn: Turn, replaces: Replaced, after: tuple[str, ...]) -> NewRun:
    """The same run as a replacement: it begins after those runs have ended."""
    (started,) = turn.events
    assert isinstance(started, e.Started), started
    return new_run(
        new.row.run,
        msgspec.structs.replace(started, after=after),
        turn.at,
        blobs=dict(new.blobs),
        needs=new.needs,
        input_hash=new.input_hash,
        unique=new.unique,
        replaces=replaces,
        joins=new.joins,
        message=new.message,
    )[0]


def _kept(started: e.Started) -> e.Started:
    """The start with instants in UTC. Raises `InvalidInput` if one of them, or the retention, cannot be stored."""
    begins, deadline = started.available_at, started.deadline
    if started.keep is not None and started.keep > LONGEST_KEPT:
        raise InvalidDuration(
            f"keep: {started.keep.days} days is more than 10,000 years. Leave keep out to keep runs forever."
        )
    if begins is None and deadline is None:
        return started
    return msgspec.structs.replace(
        started,
        available_at=None if begins is None else kept_instant(begins, "delay"),
        deadline=None if deadline is None else kept_instant(deadline, "deadline"),
    )
