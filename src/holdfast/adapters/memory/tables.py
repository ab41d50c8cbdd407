"""What the memory store holds: plain dicts. Nothing here locks, decides, or knows the time."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from holdfast.adapters.limits.desk import Waiter
from holdfast.core.snapshot import Snapshot
from holdfast.core.suspicion import Weight
from holdfast.core.turn import Row
from holdfast.ports.blobs import BlobKind
from holdfast.ports.contents import StoredValue
from holdfast.ports.inbox import Kind
from holdfast.ports.leases import WorkerRow
from holdfast.ports.limits import StoredLimit
from holdfast.ports.parts import StoredParts, StoredSpan
from holdfast.ports.queues import StoredQueue
from holdfast.ports.runs import RunRow
from holdfast.ports.schedules import StoredSchedule
from holdfast.ports.updates import StoredAnswer

__all__ = [
    "Adoption",
    "Blob",
    "Duty",
    "Letter",
    "LimitTables",
    "Line",
    "Registration",
    "Source",
    "Standing",
    "Tables",
    "Watch",
]

Source: TypeAlias = tuple[Literal["row", "message", "value", "answer", "snapshot"], int | str]
"""Which part of a run refers to a blob: the row of an ordinal, the message of a number, the value of a name, the answer
to a message, or the snapshot."""


@dataclass(slots=True)
class Letter:
    """An inbox row."""

    no: int
    id: str
    kind: Kind
    body: bytes
    checksum: bytes
    consumed_ordinal: int = 0


@dataclass(frozen=True, slots=True)
class Watch:
    """A wait on a topic."""

    no: int
    key: str
    topic: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Adoption:
    """A run that asked to be told of the end of a run it did not start. `message` is the id of the message it will
    get."""

    run: str
    key: str
    message: str


@dataclass(slots=True)
class Registration:
    """A worker instance and its lease: valid until that second of that boot. `mark` tells its process from later
    ones."""

    worker: WorkerRow
    boot: str
    until: float
    mark: str
    seen_at: datetime
    has_ended: bool = False

    def is_live(self, boot: str, second: float) -> bool:
        """Whether the lease holds at that second of that boot."""
        return not self.has_ended and self.boot == boot and second < self.until


@dataclass(slots=True)
class Blob:
    """Bytes, or None if they are in a home; `at` is when they were last stored or lost a reference, `names` are the
    blobs they refer to."""

    data: bytes | None
    size: int
    kind: BlobKind
    at: datetime
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Duty:
    """The holder of a task that one process at a time does, until that second of that boot."""

    holder: str
    boot: str
    until: float


@dataclass(frozen=True, slots=True)
class Standing:
    """A run's place at the gate of its queue: it waits, is called out of line for a cancel or a pause, or has begun.
    `share`: what it competes as."""

    share: str
    how: Literal["waits", "called", "begun"]


@dataclass(slots=True)
class Line:
    """The line at the gate of a queue: its time, until when its rate is used up (microseconds), and the virtual time of
    each share with waiting runs, and of those that are away and still remembered."""

    time: int = 0
    until: int = 0
    shares: dict[str, int] = field(default_factory=dict[str, int])
    away: dict[str, int] = field(default_factory=dict[str, int])

    def join(self, share: str) -> None:
        """Puts a share in line, unless it is there: where it was, but not below the time of the queue."""
        if share not in self.shares:
            self.shares[share] = max(self.away.pop(share, self.time), self.time)

    def leave(self, share: str) -> None:
        """Takes a share out of the line, and forgets those that are away and would join at the queue's time anyway."""
        self.away[share] = self.shares.pop(share)
        self.away = {share: time for share, time in self.away.items() if time > self.time}


@dataclass(slots=True)
class LimitTables:
    """The tables of limits. A place is a line and a slot; a waiter is a run and a step."""

    rows: dict[str, StoredLimit] = field(default_factory=dict[str, StoredLimit])
    lines: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict[tuple[str, str], tuple[int, int]])
    places: dict[tuple[str, str, int], tuple[int, str, int]] = field(
        default_factory=dict[tuple[str, str, int], tuple[int, str, int]]
    )
    waiters: dict[tuple[int, str], Waiter] = field(default_factory=dict[tuple[int, str], Waiter])
    last: int = 0


@dataclass(slots=True)
class Tables:
    """All tables. Runs have a number inside and an id outside; no number is used twice."""

    seq: int = 0
    last_no: int = 0
    numbers: dict[str, int] = field(default_factory=dict[str, int])
    runs: dict[int, RunRow] = field(default_factory=dict[int, RunRow])
    rows: dict[int, list[Row]] = field(default_factory=dict[int, list[Row]])
    inbox: dict[int, dict[str, Letter]] = field(default_factory=dict[int, dict[str, Letter]])
    watches: list[Watch] = field(default_factory=list[Watch])
    adoptions: dict[int, list[Adoption]] = field(default_factory=dict[int, list[Adoption]])
    exposed: dict[int, dict[str, StoredValue]] = field(default_factory=dict[int, dict[str, StoredValue]])
    answers: dict[int, dict[str, StoredAnswer]] = field(default_factory=dict[int, dict[str, StoredAnswer]])
    snapshots: dict[int, Snapshot] = field(default_factory=dict[int, Snapshot])
    blobs: dict[str, Blob] = field(default_factory=dict[str, Blob])
    marks: dict[str, int] = field(default_factory=dict[str, int])
    references: dict[int, dict[Source, frozenset[str]]] = field(default_factory=dict[int, dict[Source, frozenset[str]]])
    uniques: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    """Of each workflow and unique value the run that had it last: it has it until it ends."""
    gathering: dict[tuple[str, str], tuple[int | None, datetime | None]] = field(
        default_factory=dict[tuple[str, str], tuple[int | None, datetime | None]]
    )
    """Of those whose run takes inputs of others before it begins: for how many there is room, and by when it begins."""
    streams: dict[int, dict[str, list[StoredParts]]] = field(default_factory=dict[int, dict[str, list[StoredParts]]])
    spans: dict[int, dict[str, list[StoredSpan]]] = field(default_factory=dict[int, dict[str, list[StoredSpan]]])
    keep: dict[int, timedelta] = field(default_factory=dict[int, timedelta])
    duties: dict[str, Duty] = field(default_factory=dict[str, Duty])
    schedules: dict[str, StoredSchedule] = field(default_factory=dict[str, StoredSchedule])
    queues: dict[str, StoredQueue] = field(default_factory=dict[str, StoredQueue])
    lines: dict[str, Line] = field(default_factory=dict[str, Line])
    standings: dict[int, Standing] = field(default_factory=dict[int, Standing])
    """One entry per run that its queue counts."""
    limits: LimitTables = field(default_factory=LimitTables)
    workers: dict[str, Registration] = field(default_factory=dict[str, Registration])
    freed: dict[int, tuple[str, Weight]] = field(default_factory=dict[int, tuple[str, Weight]])
    """For each run: the dead instance it was last freed from, and what that death added to its counters."""

    def run(self, run_id: str) -> RunRow | None:
        no = self.numbers.get(run_id)
        return None if no is None else self.runs[no]

    def journal(self, run_id: str) -> list[Row]:
        """The rows of that run; empty if it is unknown."""
        no = self.numbers.get(run_id)
        return [] if no is None else self.rows[no]

    def referred(self, no: int) -> set[str]:
        """All blobs that the run refers to."""
        return {name for names in self.references.get(no, {}).values() for name in names}

    def watching(self, topic: str) -> list[Watch]:
        """The open waits on a topic, oldest first."""
        return [watch for watch in self.watches if watch.topic == topic]

    def tree(self, root: str) -> list[int]:
        """Numbers of the runs with that root; empty if the id is not a root."""
        return [run.no for run in self.runs.values() if run.root == root]
