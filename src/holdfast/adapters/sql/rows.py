"""Between stored rows and the values of the ports."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from holdfast.core.status import Status
from holdfast.core.turn import instant, micros
from holdfast.ports.condition import Backlog
from holdfast.ports.leases import WorkerRow
from holdfast.ports.runs import RunRow

_encoder = msgspec.json.Encoder()
_attributes = msgspec.json.Decoder(dict[str, str])
_names = msgspec.json.Decoder(tuple[str, ...])
_pairs = msgspec.json.Decoder(tuple[tuple[str, str], ...])
_STATUSES = {status.value: status for status in Status}


def maybe_micros(at: datetime | None) -> int | None:
    """As stored; nothing stays nothing."""
    return None if at is None else micros(at)


def maybe_instant(value: int | None) -> datetime | None:
    """The inverse of `maybe_micros`."""
    return None if value is None else instant(value)


def run_row(row: tuple[Any, ...]) -> RunRow:
    """A row of the view `run_rows`."""
    (no, name, workflow, version, code, codec, status, doing, queue, priority, key, input_hash, parent, parent_key,
     root, deadline, attributes, created_at, started_at, updated_at, ended_at, next_ordinal, available_at, worker,
     instance, epoch, claims, inbox_last, inbox_read, bounces, note) = row  # fmt: skip
    return RunRow(
        no=no,
        id=name,
        workflow=workflow,
        version=version,
        code=code,
        codec=codec,
        status=_STATUSES[status],
        doing=doing,
        queue=queue,
        priority=priority,
        key=key,
        input_hash=input_hash,
        parent=parent,
        parent_key=parent_key,
        root=root or name,
        deadline=maybe_instant(deadline),
        attributes={} if attributes == "{}" else _attributes.decode(attributes),
        created_at=instant(created_at),
        started_at=maybe_instant(started_at),
        updated_at=instant(updated_at),
        ended_at=maybe_instant(ended_at),
        next_ordinal=next_ordinal,
        available_at=maybe_instant(available_at),
        worker=worker,
        instance=instance,
        epoch=epoch,
        claims=claims,
        inbox_last=inbox_last,
        inbox_read=inbox_read,
        bounces=bounces,
        note=note,
    )


def worker_row(row: tuple[Any, ...], boot: str, second: int) -> WorkerRow:
    """A row of the statement `WORKERS`, judged at that microsecond of that boot."""
    (instance, worker, queues, definitions, pid, host, started_at, has_ended, its_boot, expires, progress, recovery,
     seen_at, active) = row  # fmt: skip
    return WorkerRow(
        instance=instance,
        worker=worker,
        queues=_names.decode(queues),
        definitions=_pairs.decode(definitions),
        pid=pid,
        host=host,
        started_at=instant(started_at),
        is_live=is_live((its_boot, expires, has_ended), boot, second),
        active=active,
        progress=progress,
        recovery=recovery,
        seen_at=instant(seen_at),
    )


def is_live(lease: tuple[Any, ...], boot: str, second: int) -> bool:
    """Whether a lease (boot, expires, has_ended, …) holds at that microsecond of that boot."""
    its_boot, expires, has_ended = lease[:3]
    return not has_ended and its_boot == boot and second < expires


def encoded(value: Iterable[object]) -> str:
    """A list as JSON text."""
    return _encoder.encode(tuple(value)).decode()


def decoded_names(text: str) -> tuple[str, ...]:
    """The inverse of `encoded` for queues."""
    return _names.decode(text)


def decoded_pairs(text: str) -> tuple[tuple[str, str], ...]:
    """The inverse of `encoded` for definitions."""
    return _pairs.decode(text)


def backlog_row(row: Any) -> Backlog:
    """A row of the statement `BACKLOG`."""
    workflow, version, queue, count, oldest, since = row
    return Backlog(workflow=workflow, version=version, queue=queue, count=count, oldest=oldest, since=instant(since))
