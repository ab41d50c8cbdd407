"""Between stored rows and the values of the ports. A row that cannot be read in full is read as far as possible, and
says so. It never affects other rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from holdfast.core.doing import decode_doing
from holdfast.core.gate import Gate
from holdfast.core.instants import LONGEST_WAIT, nearest_instant, span_micros
from holdfast.core.recovery import check_recovery
from holdfast.core.status import Status
from holdfast.core.turn import UNREADABLE, instant, micros
from holdfast.ports.condition import Backlog
from holdfast.ports.leases import WorkerRow
from holdfast.ports.queues import StoredQueue
from holdfast.ports.row import Due
from holdfast.ports.runs import RunRow

T = TypeVar("T")

_encoder = msgspec.json.Encoder()
_attributes = msgspec.json.Decoder(dict[str, str])
_names = msgspec.json.Decoder(tuple[str, ...])
_gate = msgspec.json.Decoder(Gate)
_pairs = msgspec.json.Decoder(tuple[tuple[str, str], ...])
_STATUSES = {status.value: status for status in Status}
_UNREADABLE = (*UNREADABLE, KeyError, TypeError, ValueError)
_UNKNOWN = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_LEASE = span_micros(LONGEST_WAIT) or 0
_SHOWN = 60


def maybe_micros(at: datetime | None) -> int | None:
    """Microseconds as stored; None stays None."""
    return None if at is None else micros(at)


def maybe_instant(value: int | None) -> datetime | None:
    """The inverse of `maybe_micros`; a number that is not an instant gives the nearest."""
    return None if value is None else nearest_instant(value)


def due_at(due: Due | None, now: int) -> int | None:
    """`available_at` of a run that is given back, as stored."""
    match due:
        case datetime():
            return micros(due)
        case "at once":
            return now
        case "never" | None:
            return None
        case "as before":
            raise AssertionError("a run that is given back has a new due time")


def ready_at(available_at: int | None, now: int) -> int | None:
    """The index in which a claim finds a run that is not held: 1 claimable now, 0 once it is due, None not by time."""
    return None if available_at is None else int(available_at <= now)


def run_row(row: tuple[Any, ...]) -> RunRow:
    """The run in a row of the view `run_rows`. Texts may come as the bytes they are stored as."""
    (no, name, workflow, version, code, codec, status, doing, queue, priority, key, input_hash, parent, parent_key,
     root, deadline, attributes, created_at, started_at, updated_at, ended_at, next_ordinal, available_at, worker,
     instance, epoch, claims, inbox_last, inbox_read, bounces, note, deaths, solo, alone) = row  # fmt: skip
    try:
        decode_doing(doing)
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
            deadline=_maybe(deadline),
            attributes={} if attributes == "{}" else _attributes.decode(attributes),
            created_at=instant(created_at),
            started_at=_maybe(started_at),
            updated_at=instant(updated_at),
            ended_at=_maybe(ended_at),
            next_ordinal=next_ordinal,
            available_at=_maybe(available_at),
            worker=worker,
            instance=instance,
            epoch=epoch,
            claims=claims,
            inbox_last=inbox_last,
            inbox_read=inbox_read,
            bounces=bounces,
            note=note,
            deaths=deaths,
            solo=solo,
            alone=alone,
        )
    except _UNREADABLE:
        return _damaged_run(row)


def place_columns(row: tuple[Any, ...]) -> tuple[int, int]:
    """The stored creation time and the number of the run: its position in lists."""
    return row[17], row[0]


def _maybe(value: int | None) -> datetime | None:
    return None if value is None else instant(value)


class _Reading:
    """Reads columns one by one, and collects why some are unreadable."""

    def __init__(self) -> None:
        self.damage: list[str] = []

    def __call__(self, column: str, value: Any, read: Callable[[Any], T], instead: T) -> T:
        try:
            return read(value)
        except _UNREADABLE as error:
            shown = repr(value)
            shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
            self.damage.append(f"{column} is {shown}, {_why(error)}")
            return instead

    def text(self, column: str, value: str | bytes) -> str:
        """A text, or as much of it as can be shown."""
        if isinstance(value, str):
            return value
        return self(column, value, bytes.decode, value.decode(errors="backslashreplace"))


def _why(error: Exception) -> str:
    match error:
        case OverflowError():
            return "outside the years 1 to 9999"
        case KeyError():
            return "which is not a status"
        case UnicodeDecodeError():
            return "which is not UTF-8"
        case _:
            return f"which cannot be read: {error}"


def _damaged_run(row: tuple[Any, ...]) -> RunRow:
    """As much of the row as can be read. The columns have the order of `run_row`."""
    (no, name, workflow, version, code, codec, status, doing, queue, priority, key, input_hash, parent, parent_key,
     root, deadline, attributes, created_at, started_at, updated_at, ended_at, next_ordinal, available_at, worker,
     instance, epoch, claims, inbox_last, inbox_read, bounces, note, deaths, solo, alone) = row  # fmt: skip
    read = _Reading()

    def doing_of(data: bytes) -> bytes:
        decode_doing(data)
        return data

    found = RunRow(
        no=no,
        id=read.text("id", name),
        workflow=read.text("workflow", workflow),
        version=read.text("version", version),
        code=read.text("code", code),
        codec=read.text("codec", codec),
        status=read("status", status, lambda word: _STATUSES[_text(word)], Status.PAUSED),
        doing=read("doing", doing, doing_of, b""),
        queue=read.text("queue", queue),
        priority=priority,
        key=read.text("key", key),
        input_hash=read.text("input_hash", input_hash),
        parent=read.text("parent", parent),
        parent_key=read.text("parent_key", parent_key),
        root=read.text("root", root or name),
        deadline=read("deadline", deadline, _maybe, None),
        attributes=read("attributes", attributes, _attributes.decode, {}),
        created_at=read("created_at", created_at, instant, _UNKNOWN),
        started_at=read("started_at", started_at, _maybe, None),
        updated_at=read("updated_at", updated_at, instant, _UNKNOWN),
        ended_at=read("ended_at", ended_at, _maybe, None),
        next_ordinal=next_ordinal,
        available_at=read("available_at", available_at, _maybe, None),
        worker=read.text("worker", worker),
        instance=read.text("instance", instance),
        epoch=epoch,
        claims=claims,
        inbox_last=inbox_last,
        inbox_read=inbox_read,
        bounces=bounces,
        note=read.text("note", note),
        deaths=deaths,
        solo=solo,
        alone=alone,
    )
    return msgspec.structs.replace(found, damage=tuple(read.damage))


def _text(word: str | bytes) -> str:
    return word if isinstance(word, str) else word.decode()


def status_of(word: str) -> Status:
    """The status; `paused` for a word that is not one (see `RunRow.damage`)."""
    return _STATUSES.get(word, Status.PAUSED)


def counted(rows: Iterable[tuple[str, int]]) -> dict[Status, int]:
    """The counts in the rows of `COUNT_BY_STATUS`; a word that is not a status counts as paused."""
    counts = dict.fromkeys(Status, 0)
    for word, count in rows:
        counts[status_of(word)] += count
    return counts


def worker_row(row: tuple[Any, ...], boot: str, second: int) -> WorkerRow:
    """The worker in a row of `WORKERS`, at that microsecond of that boot. Texts may come as bytes."""
    (instance, worker, queues, definitions, pid, host, started_at, has_ended, its_boot, expires, progress, recovery,
     seen_at, active) = row  # fmt: skip
    read = _Reading()
    lease = (read.text("boot", its_boot), expires, has_ended)
    found = WorkerRow(
        instance=read.text("instance", instance),
        worker=read.text("worker", worker),
        queues=read("queues", queues, _names.decode, ()),
        definitions=read("definitions", definitions, _pairs.decode, ()),
        pid=pid,
        host=read.text("host", host),
        started_at=read("started_at", started_at, instant, _UNKNOWN),
        is_live=is_live(lease, boot, second),
        active=active,
        progress=read.text("progress", progress),
        recovery=read.text("recovery", recovery),
        seen_at=read("seen_at", seen_at, instant, _UNKNOWN),
    )
    read("recovery", recovery, check_recovery, None)
    if not read.damage:
        return found
    return msgspec.structs.replace(found, damage=tuple(read.damage))


def is_live(lease: tuple[Any, ...], boot: str, second: int) -> bool:
    """Whether a lease (boot, expires, has_ended, …) is valid at that microsecond of that boot. A lease longer than any
    worker may ask for is not."""
    its_boot, expires, has_ended = lease[:3]
    return not has_ended and its_boot == boot and second < expires <= second + _LONGEST_LEASE


def encoded(value: Iterable[object]) -> str:
    """A list as JSON text."""
    return _encoder.encode(tuple(value)).decode()


def decoded_names(text: str) -> tuple[str, ...]:
    """The inverse of `encoded` for queues; empty if they cannot be read."""
    return _Reading()("queues", text, _names.decode, ())


def decoded_pairs(text: str) -> tuple[tuple[str, str], ...]:
    """The inverse of `encoded` for definitions; empty if they cannot be read."""
    return _Reading()("definitions", text, _pairs.decode, ())


def encoded_gate(gate: Gate) -> bytes:
    """The rules that a store enforces, in stored form."""
    return _encoder.encode(gate)


def decoded_gate(data: bytes) -> Gate:
    """The inverse of `encoded_gate`. Rules that cannot be read admit nothing, which is the safe choice."""
    return _Reading()("gate", data, _gate.decode, Gate(is_paused=True))


def queue_of(row: Any) -> StoredQueue:
    """The queue in a row: name, revision, body, gate."""
    name, revision, body, gate = row
    rules = decoded_gate(gate.encode() if isinstance(gate, str) else gate)
    return StoredQueue(name=name, revision=revision, body=bytes(body), gate=rules)


def backlog_row(row: Any) -> Backlog:
    workflow, version, queue, count, oldest, since = row
    return Backlog(
        workflow=workflow, version=version, queue=queue, count=count, oldest=oldest, since=nearest_instant(since)
    )
