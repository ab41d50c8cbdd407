"""Values of the ports in the form that the schema's functions take: JSON for rare ones, columns for what every turn
has."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias

import msgspec

from holdfast.adapters.postgres.streams import brought
from holdfast.adapters.sql.rows import maybe_micros
from holdfast.core.checksums import answer_checksum, shown_checksum
from holdfast.core.definition import DefinitionBytes
from holdfast.core.events import Started
from holdfast.core.instants import span_micros
from holdfast.core.messages import encode_event, ended_by, id_in_use, undelivered_id, with_key, with_status
from holdfast.core.references import references_of
from holdfast.core.status import Status
from holdfast.core.turn import Row, micros
from holdfast.ports.blobs import BlobData, Stub, held_by
from holdfast.ports.inbox import Message, Publication
from holdfast.ports.journal import Commit, Exposure
from holdfast.ports.rewritten import Rewritten
from holdfast.ports.row import row_after
from holdfast.ports.runs import Joining, NewRun
from holdfast.ports.updates import UpdateAnswer

Halves: TypeAlias = tuple[bytes, bytes, tuple[str, ...]]
"""The two parts of an event around the place of its key, and the blobs it refers to."""

CONSUMES, ENDS, CLEARS, LEAVES, IS_OPEN = 1, 2, 4, 8, 16
"""What `ports.row` says of a turn, in the form that the function `_turn` takes."""

_NOT_BEGUN: Sequence[Any] = (None, None, None, None)

_encoder = msgspec.json.Encoder()  # bytes become base64
_HOLE = secrets.token_hex(16)  # of this process, so no data can contain it
_QUOTED_HOLE = f'"{_HOLE}"'.encode()
_STATUS, _MISSING = b'"status":', b'"status":"missing"'  # a quote within a text is escaped, so no text holds these


def encoded_json(value: Any) -> str:
    """As a parameter of type jsonb."""
    return _encoder.encode(value).decode()


def new_run(
    new: NewRun, *, since: int = 0, instance: str = "", worker: str = "", first: Commit | None = None
) -> dict[str, Any]:
    """A run to make, with its first turn."""
    row, started = new.row, new.started
    wire: dict[str, Any] = {
        "id": row.run,
        "at": row.at,
        "format": row.format,
        "checksum": row.checksum,
        "body": row.body,
        "doing": new.doing,
        "input_hash": new.input_hash,
        "workflow": started.workflow,
        "version": started.version,
        "code": started.code,
        "codec": started.codec,
        "queue": started.queue,
        "priority": started.priority,
        "key": started.key,
        "available_at": maybe_micros(started.available_at),
        "deadline": maybe_micros(started.deadline),
        "parent": started.parent,
        "parent_key": started.parent_key,
        "root": started.root,
        "since": since,
        "instance": instance,
        "worker": worker,
    }
    if started.keep is not None:
        wire["keep"] = span_micros(started.keep)
    if started.attributes:
        wire["attributes"] = started.attributes
    if new.unique:
        wire["unique"] = new.unique
    if new.replaces is not None:
        seen, cancel = new.replaces, new.replaces.cancel
        told = {} if cancel is None else {"cancel": message(cancel)}
        wire["replaces"] = {"run": seen.run, "is_idle": seen.is_idle, **told}
        wire["after"] = started.after
        wire["messages"] = [{"run": run} for run in (seen.run, *started.after)]  # whose rows are locked first
    if new.joins is not None:
        wire["joins"] = _joining(new.joins, started)
    if new.message is not None:
        wire["message"] = message(new.message)
    if started.share:
        wire["share"] = started.share
    if new.rides:
        wire["rides"] = True
    _add_blobs(wire, new.blobs, new.references)
    if new.needs:
        wire["needs"] = sorted(set(new.needs))
    if first is not None:
        wire["first"] = (*turn(first), besides(first))
    if new.watcher is not None:
        wire["watcher"] = new.watcher
    return wire


def _joining(joins: Joining, started: Started) -> dict[str, Any]:
    wire: dict[str, Any] = {
        "message": joins.message,
        "body": joins.body,
        "begins_at": maybe_micros(joins.begins_at),
        "room": -1 if joins.room is None else joins.room,
        "latest": maybe_micros(started.latest),
    }
    return {**wire, "makes_another": True} if joins.makes_another else wire


def plain_run(
    new: NewRun, given: int | None, *, instance: str = "", worker: str = "", first: Commit | None = None
) -> tuple[Any, ...] | None:
    """The values of a new run that is unrelated to others and due at once, with or without its first turn; None for any
    other run. `given`: the time, if it is not the server's."""
    row, started = new.row, new.started
    has_more = new.blobs or new.needs or new.references or new.watcher or new.message or new.unique or started.share
    if has_more or started.attributes or started.key or started.parent or started.root not in ("", row.run):
        return None
    facts: tuple[Any, ...] = (0, 2, Status.PENDING.value, started.workflow, started.version, 0)
    times: tuple[Any, ...] = (row.at, None, row.at)
    doing, begun = new.doing, _NOT_BEGUN
    if first is not None:
        goes_on = plain(first)
        if goes_on is None or first.is_terminal or not instance:
            return None
        _, epoch, ordinal, *begun, workflow, version, status, doing, since, updated, _, _, flags, _, _ = goes_on
        if (epoch, ordinal) != (1, 2):
            return None
        facts = (1, 3, status, workflow, version, 0 if flags & CLEARS else 1)
        times = (row.at, since, updated)
    elif instance:
        return None
    return (
        row.run,
        *facts,
        instance,
        maybe_micros(started.available_at),
        None if instance else 1,
        started.queue,
        started.priority,
        worker if instance else "",
        new.input_hash,
        started.code,
        started.codec,
        maybe_micros(started.deadline),
        *times,
        span_micros(started.keep),
        doing,
        given,
        row.at,
        row.format,
        row.checksum,
        row.body,
        *begun,
    )


def message(sent: Message) -> dict[str, Any]:
    wire: dict[str, Any] = {
        "run": sent.run,
        "id": sent.id,
        "kind": sent.kind,
        "body": sent.body,
        "checksum": sent.checksum,
    }
    _add_blobs(wire, sent.blobs, sent.references)
    if sent.asks:
        wire["asks"] = (sent.asks, answer_checksum(sent.run, sent.id, "", b"", ""))
    if sent.reply:
        before, _, after = with_status(sent.reply, "missing").partition(_MISSING)
        wire["reply"] = (before + _STATUS, after, undelivered_id(sent.reply))  # the server fills in why
    return wire


def publication(sent: Publication) -> dict[str, Any]:
    """A message to the watchers of a topic. The server fills in the key of each wait."""
    wire: dict[str, Any] = {"topic": sent.topic, "id": sent.id, "halves": _split(with_key(sent.body, _HOLE))}
    _add_blobs(wire, sent.blobs, sent.references)
    return wire


def besides(commit: Commit) -> dict[str, Any] | None:
    """What a turn brings besides its row and the projection; None for the common turn."""
    if commit.is_plain:
        return None
    wire: dict[str, Any] = {}
    _add_blobs(wire, tuple(commit.blobs.items()), commit.references)
    if commit.children:
        wire["children"] = [new_run(child) for child in commit.children]
    if commit.messages:
        wire["messages"] = [message(one) for one in commit.messages]
    if commit.publications:
        wire["publications"] = [publication(one) for one in commit.publications]
    if commit.exposed:
        wire["exposed"] = [_shown(commit.row.run, one) for one in commit.exposed]
    if commit.parts or commit.spans:
        wire["streams"] = brought(commit)
    if commit.attributes:
        wire["attributes"] = commit.attributes
    if commit.answers:
        wire["answers"] = [answer(commit.row.run, one) for one in commit.answers]
    if commit.watch or commit.unwatch:
        wire["unwatch"] = [*commit.unwatch, *(key for _, key in commit.watch)]
        wire["watch"] = commit.watch
    return wire or None


def turn(commit: Commit) -> tuple[Any, ...]:
    """The columns of a turn, in the order of the functions."""
    row, facts, after = commit.row, commit.projection, row_after(commit)
    flags = (
        (CONSUMES if commit.is_consuming else 0)
        | (ENDS if after.unread is None else 0)
        | (CLEARS if after.clears else 0)
        | (LEAVES if not after.keeps_lease else 0)
        | (IS_OPEN if after.is_open else 0)
    )
    return (
        commit.no,
        row.epoch,
        row.ordinal,
        row.at,
        row.format,
        row.checksum,
        row.body,
        facts.workflow,
        facts.version,
        facts.status.value,
        facts.doing,
        maybe_micros(facts.started_at),
        row.at,
        row.at if commit.is_terminal else None,
        commit.inbox_seen,
        flags,
        commit.after,
        micros(after.read) if isinstance(after.read, datetime) else None,
    )


OF_NO_RUN: tuple[Any, ...] = (0, 0, 0, 0, 0, b"", b"", "", "", "", b"", None, 0, None, 0, 0, b"", None)
"""The values of a turn that matches no run: numbers of runs begin with 1."""


def plain(commit: Commit) -> tuple[Any, ...] | None:
    """The values of a turn that brings nothing else and whose run keeps its lease or ends; None for any other turn."""
    if not commit.is_plain:
        return None
    after = row_after(commit)
    is_common = after.is_open if after.keeps_lease else after.unread is None
    return turn(commit) if is_common else None


class Known:
    """What the server cannot encode itself: the end of a run as a waiting run reads it."""

    def __init__(self) -> None:
        self._ends: dict[str, Halves] = {}
        self._conflicts: dict[str, dict[str, Halves]] = {}

    def add_ends(self, commits: Iterable[Commit]) -> None:
        """Adds the ends in these turns."""
        for commit in commits:
            if commit.is_terminal:
                self.add_end(commit.row)

    def add_end(self, row: Row) -> None:
        """Adds the end in a run's last row."""
        told = ended_by(row, _HOLE)
        self._ends[row.run] = _split(encode_event(told), references_of((told,)))

    def add_conflict(self, run: str, its_workflow: str, workflow: str) -> None:
        """Adds the end of a child whose id belongs to a run of another workflow."""
        told = encode_event(id_in_use(run, its_workflow, workflow, _HOLE))
        self._conflicts.setdefault(run, {})[workflow] = _split(told)

    def as_json(self) -> str | None:
        """The value as a parameter; None if nothing was asked for."""
        if not self._ends and not self._conflicts:
            return None
        wire: Mapping[str, Any] = {"ends": self._ends, "conflicts": self._conflicts}
        return encoded_json(wire)


def blobs(many: Iterable[tuple[str, BlobData]]) -> list[tuple[str, bytes | None, int, tuple[str, ...], bool]]:
    """The blobs to store: name, bytes (None: they are in a home), size, references, and whether it is a definition."""
    return [
        (name, None, data.size, held_by(data), data.is_definition)
        if isinstance(data, Stub)
        else (name, bytes(data), len(data), held_by(data), isinstance(data, DefinitionBytes))
        for name, data in many
    ]


def rewritten(new: Rewritten) -> dict[str, Any]:
    """What stands in the place of a run's contents, as the function `rewrite` takes it."""
    refers = {name for kind, _, name in new.references if kind == "value"}
    return {
        "rows": [(row.ordinal, row.format, row.checksum, row.body) for row in new.rows],
        "attributes": new.attributes,
        "messages": [(message.no, message.body, message.checksum) for message in new.messages],
        "shown": [(x.name, x.value, x.blob, x.checksum, x.name in refers) for x in new.shown],
        "answers": [(x.message, x.asked, x.value, x.blob, x.checksum) for x in new.answers],
        "parts": [(name, part.first, part.packed, part.checksum) for name, part in new.parts],
        "references": [(*source, names) for source, names in new.references.items()],
        "blobs": blobs(new.blobs.items()),
        "segments": blobs(new.segments.items()),
    }


def _shown(run: str, shown: Exposure) -> tuple[Any, ...]:
    """Name, value, blob, checksum and, if there are any, references."""
    stored = (shown.name, shown.value, shown.blob)
    written = (*stored, shown_checksum(run, *stored))
    return (*written, shown.references) if shown.references else written


def answer(run: str, given: UpdateAnswer) -> tuple[Any, ...]:
    """Message, outcome, value, blob, checksum and, if there are any, references."""
    said = (given.outcome, given.value, given.blob)
    written = (given.message, *said, answer_checksum(run, given.message, *said))
    return (*written, given.references) if given.references else written


def _add_blobs(wire: dict[str, Any], many: Sequence[tuple[str, BlobData]], references: Sequence[str]) -> None:
    if many:
        wire["blobs"] = blobs(many)
    if references:
        wire["names"] = references


def _split(event: bytes, references: tuple[str, ...] = ()) -> Halves:
    before, hole, after = event.partition(_QUOTED_HOLE)
    assert hole, "an event for others has a place for their key"
    return before, after, references
