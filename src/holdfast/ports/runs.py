"""Runs: one row each, created at start, changed only by commits and lease verbs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import msgspec

from holdfast.core.events import Started
from holdfast.core.instants import kept_instant
from holdfast.core.status import Status
from holdfast.core.suspicion import Suspicion
from holdfast.core.turn import Row, instant
from holdfast.ports.blobs import BlobData
from holdfast.ports.inbox import Message

if TYPE_CHECKING:
    from holdfast.ports.journal import Commit, Committed


class Replaced(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The open run that has a unique value, as the caller saw it: the new run takes the value from it.

    `is_idle`: it had not begun, and no worker held it. `cancel`: the message that is sent to it; None: it is left
    alone.
    """

    run: str
    is_idle: bool
    cancel: Message | None = None


class Joining(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A start that joins the run which has its unique value, if that has not begun and takes more inputs.

    `message` is its id, `body` the `InputGiven` it comes with. `begins_at`: when the run is to begin after this; None
    leaves that alone. `room`: how many inputs a run that is made by this start takes besides its own; None: any
    number. `makes_another`: a run that cannot be joined is left alone, and loses the value to a new one.
    """

    message: str
    body: bytes
    begins_at: datetime | None = None
    room: int | None = None
    makes_another: bool = False


class NewRun(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A run to be made: its first row (ordinal 1, epoch 0), and the facts in it that become columns.

    `blobs` come with the run; `needs` names others that were stored before it and must still be there; `references` are
    those that the first row refers to. `watcher` is for children: (run id, key) of the parent, told when an adopted run
    ends. `unique`: at most one open run of the workflow has this value; "" is none; `replaces`: unless it is this run,
    which gives the value up. `rides`: a child on the place that its parent has in their queue: it does not wait at the
    gate (`ports.queues`). `message`: in its inbox from the beginning; its blobs are among those of the run. No run that
    is there already gets it.
    """

    row: Row
    started: Started
    doing: bytes
    input_hash: str = ""
    blobs: tuple[tuple[str, BlobData], ...] = ()
    needs: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    watcher: tuple[str, str] | None = None
    unique: str = ""
    rides: bool = False
    replaces: Replaced | None = None
    joins: Joining | None = None
    message: Message | None = None


class RunRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A run in its row. Lease columns are not part of the fold."""

    no: int
    id: str
    workflow: str
    version: str
    code: str
    codec: str
    status: Status
    doing: bytes
    queue: str
    priority: int
    key: str
    input_hash: str
    parent: str
    parent_key: str
    root: str
    deadline: datetime | None
    attributes: dict[str, str]
    created_at: datetime
    started_at: datetime | None
    updated_at: datetime
    ended_at: datetime | None
    next_ordinal: int
    # lease columns
    available_at: datetime | None
    worker: str
    instance: str
    epoch: int
    claims: int
    inbox_last: int
    inbox_read: int
    bounces: int
    note: str
    damage: tuple[str, ...] = ()
    """Unreadable columns, each with the reason. They have harmless values: no deadline, 1970, no attributes, `paused`
    for an unknown status."""
    # what stands against it: see `core.suspicion`
    deaths: int = 0
    solo: int = 0
    alone: int = 0

    @property
    def is_idle(self) -> bool:
        """Whether it has neither begun nor been given to a worker."""
        return self.started_at is None and not self.instance

    @property
    def suspicion(self) -> Suspicion:
        """The evidence from the deaths of its workers."""
        return Suspicion(self.deaths, self.solo, self.alone)


def row_of(new: NewRun, no: int, available_at: datetime, instance: str = "", worker: str = "") -> RunRow:
    """The row of a new run before any turn; `instance` and `worker` if it is created already claimed."""
    started, made_at = new.started, instant(new.row.at)
    epoch = 1 if instance else 0
    return RunRow(
        no=no,
        id=new.row.run,
        workflow=started.workflow,
        version=started.version,
        code=started.code,
        codec=started.codec,
        status=Status.PENDING,
        doing=new.doing,
        queue=started.queue,
        priority=started.priority,
        key=started.key,
        input_hash=new.input_hash,
        parent=started.parent,
        parent_key=started.parent_key,
        root=started.root or new.row.run,
        deadline=None if started.deadline is None else kept_instant(started.deadline, "deadline"),
        attributes=dict(started.attributes),
        created_at=made_at,
        started_at=None,
        updated_at=made_at,
        ended_at=None,
        next_ordinal=new.row.ordinal + 1,
        available_at=available_at,
        worker=worker,
        instance=instance,
        epoch=epoch,
        claims=epoch,
        inbox_last=0,
        inbox_read=0,
        bounces=0,
        note="",
    )


class Made(msgspec.Struct, frozen=True, gc=False):
    """This call created the run: `run` is its row before any turn, `first` the verdict on the turn that came with it.
    None: there was none, or the run could not be created already claimed."""

    run: RunRow
    first: Committed | None = None


class Existing(msgspec.Struct, frozen=True, gc=False):
    """A run with that id, or with that key within its window, or an open one with that unique value, already
    existed."""

    run: RunRow
    by: Literal["id", "key", "unique"] = "id"


class Joined(msgspec.Struct, frozen=True, gc=False):
    """The start joined this run: its input is in the inbox, and the run was not woken by it."""

    run: RunRow


class Lacking(msgspec.Struct, frozen=True, gc=False):
    """Nothing was created: a blob that the run needs has been collected meanwhile."""


Creation: TypeAlias = Made | Existing | Joined | Lacking


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs to list. Empty means any. `since` and `until` limit the creation time, `until` exclusively; `prefix`
    is how its id begins, `ids` are some ids, `parents` the ids of runs that started it. `is_oldest_first` turns the
    order of a list around."""

    workflow: str = ""
    version: str | None = None
    statuses: tuple[Status, ...] = ()
    queue: str = ""
    parent: str = ""
    root: str = ""
    key: str = ""
    worker: str = ""
    attributes: dict[str, str] = {}
    is_suspect: bool = False
    since: datetime | None = None
    until: datetime | None = None
    prefix: str = ""
    ids: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()
    is_oldest_first: bool = False


def matches(run: RunRow, which: Filter) -> bool:
    """Whether the run matches a filter."""
    return (
        (not which.workflow or run.workflow == which.workflow)
        and (which.version is None or run.version == which.version)
        and (not which.statuses or run.status in which.statuses)
        and (not which.queue or run.queue == which.queue)
        and (not which.parent or run.parent == which.parent)
        and (not which.root or run.root == which.root)
        and (not which.key or run.key == which.key)
        and (not which.worker or run.worker == which.worker)
        and (not which.is_suspect or run.suspicion.is_suspect)
        and which.attributes.items() <= run.attributes.items()
        and (which.since is None or run.created_at >= which.since)
        and (which.until is None or run.created_at < which.until)
        and run.id.startswith(which.prefix)
        and (not which.ids or run.id in which.ids)
        and (not which.parents or run.parent in which.parents)
    )


class Page(msgspec.Struct, frozen=True, gc=False):
    """Some runs in the order of their filter, and the cursor of the next page ("" at the end)."""

    runs: list[RunRow]
    next: str


class Runs(Protocol):
    """The runs of a store."""

    async def create(
        self, new: NewRun, *, key_since: datetime, instance: str = "", worker: str = "", first: Commit | None = None
    ) -> Creation:
        """Makes a pending run; durable when it returns.

        An id in use, or a key used by a run of the same workflow made after `key_since`, or a unique value that an open
        run started as the same workflow has, gives `Existing` and writes nothing; they are looked for in this order. A
        value is free again when its run ends, whatever workflow the run has become by then. If that run is the one
        that `replaces` names, and stands as it says there, the new run is made and has the value, and the cancel is
        sent, in one transaction; if the run has ended, or there is none, `replaces` means nothing. Otherwise a blob of
        `needs` that is not stored gives `Lacking` and writes nothing; if all are stored, those that the run, or a blob
        that comes with it, refers to are kept from then on. Any number of concurrent callers get one run. With
        `instance` the run is made already claimed by that worker instance (status stays pending until its first turn,
        epoch 1), unless it is not yet due or waits at the gate of its queue (`ports.queues`). `first` is that turn (its
        `no` does not count): applied like any commit, in the transaction that makes the run, and only if the run is
        made already claimed.

        With `joins`, an open run of the value that was made with `joins` too, has the same version, has neither begun
        nor been given to a worker, and has room left, gets the message (kind "input") and is not woken by it: `Joined`.
        If it is not due yet, it is due at `begins_at`, unless that is earlier than before, and never later than its
        `Started.latest`. The message that takes the last room makes it due now. A run that cannot be joined is
        `Existing`, or with `makes_another` loses the value to the run that is made.

        A run with `replaces` is never made already claimed. If its start names others (`Started.after`), it is not due
        before they have ended: each of them sends it a `PredecessorEnded` with its end, or at once if it has ended or
        is not there.

        The same rules hold for children made by a commit, with two differences: an id in use by a run of the same
        workflow is adopted (the `watcher` is told of its end, at once if it has ended), and one of another workflow
        sends the watcher a failed `ChildEnded` with a `Conflict`.
        """
        ...

    async def get(self, run: str) -> RunRow | None:
        """The run's row. An unreadable one says so (`RunRow.damage`), here and wherever a row is returned: a bad row
        affects only itself."""
        ...

    async def list(self, which: Filter, *, after: str = "", limit: int = 100) -> Page:
        """Newest first (created_at, then number), or the reverse. Raises `InvalidInput` for a cursor that this store
        did not make."""
        ...

    async def count(self) -> dict[Status, int]:
        """The number of runs of each status; a run with an unreadable status counts as paused."""
        ...

    async def exposed(self, run: str, name: str) -> tuple[bytes, str] | None:
        """The value and blob name of an exposed value. Raises `CorruptJournal` if its checksum does not match."""
        ...

    async def exposures(self, run: str) -> Sequence[tuple[str, bytes, str]]:
        """All exposed values of a run: name, value, blob. Raises `CorruptJournal` like `exposed`."""
        ...
