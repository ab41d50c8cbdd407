"""Leases: which worker may try to advance a run. The epoch decides which worker commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal, Protocol, TypeAlias

import msgspec

from holdfast.core.status import Status
from holdfast.ports.runs import RunRow


class WorkerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A worker instance. `definitions` are the (name, version) pairs it can advance."""

    instance: str
    worker: str
    queues: tuple[str, ...]
    definitions: tuple[tuple[str, str], ...]
    pid: int
    host: str
    started_at: datetime
    is_live: bool = True
    active: int = 0
    progress: str = ""
    recovery: str = ""
    """What its recovery has found so far, as `core.recovery` encodes it."""
    seen_at: datetime | None = None
    """When it was last heard, by the store's clock."""
    damage: tuple[str, ...] = ()
    """Unreadable columns, each with the reason. In their place: no queues, no definitions, 1970."""


class Held(msgspec.Struct, frozen=True, gc=False):
    """A run of this instance, as the store sees it."""

    epoch: int
    inbox_last: int


class Beat(msgspec.Struct, frozen=True, gc=False):
    """The answer to a heartbeat. `has_lapsed`: the lease had expired before it, so runs may have been taken over."""

    now: datetime
    has_lapsed: bool
    orphaned: int
    next_expiry: datetime | None = None
    """When the first lease of other instances that hold runs expires, unless they beat; `now` if one has expired and
    runs are still to be freed; None if no other instance holds any."""
    quiet_until: datetime | None = None
    """Until when no run in the instance's queues becomes due, for any worker, unless something is written; `now` if
    some are due, and never later than the lease. None: the store did not look."""


class Taken(msgspec.Struct, frozen=True, gc=False):
    """The run is yours: its epoch is raised, and earlier holders are fenced."""

    run: RunRow


class HeldBy(msgspec.Struct, frozen=True, gc=False):
    """A live worker holds the run, at least until then."""

    worker: str
    instance: str
    expires_at: datetime


class Lease(msgspec.Struct, frozen=True, gc=False):
    """Who holds a run, and until when unless a heartbeat comes."""

    run: str
    worker: str
    instance: str
    epoch: int
    expires_at: datetime


class Over(msgspec.Struct, frozen=True, gc=False):
    """The run has ended."""

    status: Status


TakeOver: TypeAlias = Literal["all", "gone", "none"]
"""Which earlier instances of its id a registering worker replaces without waiting for their leases: all; those of its
host whose process is gone under the same boot id; none."""

Taking: TypeAlias = Taken | HeldBy | Over | None


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Which worker wants to begin runs, and which: at most `limit`, of the queues and definitions of `worker`; with
    `only`, of these run ids. `max_claims`: see `Leases.claim`."""

    worker: WorkerRow
    limit: int
    max_claims: int
    only: tuple[str, ...] = ()


class Claims(msgspec.Struct, frozen=True, gc=False):
    """What a claim took, and when the next run of these queues is due (None: unknown). `put_off` are the runs it
    delayed because a definition is missing, each with a note. `is_held_back`: it took fewer than the limit although
    runs wait at the gate of a queue: the end of any run may admit them.
    """

    runs: list[RunRow]
    next_due: datetime | None
    put_off: tuple[tuple[str, str], ...] = ()
    is_held_back: bool = False


class Heart(Protocol):
    """The heartbeat of one worker instance, called from its own thread: blocking, with its own connection."""

    def beat(self, progress: str = "", *, recovery: str = "", frees: int = 100, takes_back: bool = True) -> Beat:
        """Renews the lease of the instance, and with it all its runs; frees the runs of instances whose lease ran out
        (at most `frees` of them: available now, lease cleared, epoch and worker as they were), and says when the next
        lease of another worker runs out, and how long there is nothing to claim. A death counts against the runs that
        the instance held, as `core.suspicion` says; an instance that had lapsed and beats again had not died, so what
        its end counted against runs that made no progress since is taken back, their claim included, unless
        `takes_back` is false. `progress` and `recovery` are shown in the worker's row. An unknown instance has lapsed
        until it registers. The cost is that of the instances that hold runs, however many runs they hold. Raises
        `StoreUnavailable`."""
        ...

    def close(self) -> None:
        """Gives the connection back."""
        ...


class Leases(Protocol):
    """Claim, renew, release."""

    async def register(self, worker: WorkerRow, ttl: timedelta, *, takes_over: TakeOver) -> Sequence[str]:
        """Makes a worker instance known, its lease beginning now. Earlier instances of the same worker id that it takes
        over from are ended and their runs freed at once; returns the ids of these, in any order. Others keep theirs
        until expiry. The cost is that of the worker's own runs, however many the store holds.

        Runs that were put off for want of a definition which this worker holds are available at once."""
        ...

    def heart(self, instance: str, ttl: timedelta) -> Heart:
        """The heartbeat of a registered instance."""
        ...

    async def claim(self, request: ClaimRequest) -> Claims:
        """Takes up to `limit` of the runs that may begin (`ports.admission`): due, unheld, unended, unpaused, of the
        worker's queues and definitions. Each gets epoch + 1, claims + 1 and this instance.

        The order is fair by share (`core.shares`; the default share is the workflow): shares take turns, and the one
        that this instance took least from comes first. Within a share higher priority comes first, then available time.
        So a flood of one share never starves another: a run that is first in its share is taken after one run of each
        other share at most, however small the limit is. What an instance took is remembered by the store that it claims
        from, for as long as that is open. Runs that are made already claimed, or are taken, count too.

        Runs that wait at the gate of a queue come in the order of that gate, and no more of them than it lets in
        (`ports.queues`); among all others they take turns as one share. `next_due` says when a rate lets in more.

        At most one of them is a suspect, the first by priority and time, and none if the instance holds a suspect; the
        other suspects have no place in the order. A run whose
        claims without progress have reached `max_claims` is taken too, with its count; the engine quarantines it. A run
        of a definition this worker does not hold is left alone if a live worker holds it, and otherwise put off by 5 s
        doubling up to 5 min, with a note; it is never failed.

        A run whose row cannot be read in full is taken too, and says so (`RunRow.damage`); the engine pauses it. A
        worker's row that cannot be read holds no definitions, and keeps no other worker from claiming or beating.
        """
        ...

    async def due(self, request: ClaimRequest) -> Claims:
        """What `claim` would take now, in its order, and nothing is taken or counted: for a worker that must ask
        another service first whether it may try (`ports.grants`), and then claims `only` those. It does not prevent
        claims: the runs it found are not locked."""
        ...

    async def acquit(self, run: int, *, epoch: int) -> bool:
        """Clears the evidence against a run that survived its trial; its claims still count. Returns False, and writes
        nothing, if it is not held under that epoch."""
        ...

    async def reinstate(self, run: str, *, instance: str, epoch: int) -> bool:
        """The instance holds a run again that was freed because its lease had run out: it has not noticed, still
        advances the run, and the lease manager (`ports.grants`) says that it may. Epoch as it was: it continues
        unfenced. True too if it holds the run. False, and no trace, if the run was claimed since (its epoch is
        another), is held by another instance, has ended, is paused or is not there, or if the instance is not known or
        has ended. What
        was counted against the run when it was taken from this instance is taken back."""
        ...

    async def lease(self, run: str) -> Lease | None:
        """The holder of the run; None if no live worker holds it."""
        ...

    async def held(self, instance: str) -> Mapping[str, Held]:
        """The runs of this instance now, by id. A missing run was taken over."""
        ...

    async def take(self, run: str, *, instance: str, steal: bool = False) -> Taking:
        """Takes one run for an operator, whatever its status unless it has ended; with `steal` also from a live
        holder. Epoch + 1; claims are not counted. An end time that is not an instant does not count as an end and
        is cleared."""
        ...

    async def release(self, run: int, *, epoch: int, until: datetime | None, inbox_seen: int, note: str = "") -> bool:
        """Gives a run back without a turn, fenced by epoch; available now if messages are unread, else at `until`. The
        claim is not counted, and the run is no longer a suspect: it did not kill its worker. False, and
        no trace, if the epoch has moved on. With a `note`, which says why this worker cannot run it, it is put off: a
        worker that registers with its definition recalls it (see `register`)."""
        ...

    async def release_all(self, instance: str) -> int:
        """Releases everything the instance holds, available now, like `release`, and ends the instance."""
        ...

    async def workers(self) -> Sequence[WorkerRow]:
        """Every known instance, live ones first, with how many runs each holds."""
        ...


async def live_instances(store: Leases) -> frozenset[str]:
    """The worker instances whose lease has not run out."""
    return frozenset(worker.instance for worker in await store.workers() if worker.is_live)
