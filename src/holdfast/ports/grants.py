"""Grants: leases kept outside the store, by a manager that a fleet trusts already (etcd, NATS).

A grant says who *may try* to advance a run. Who commits is decided by the store's epoch, always: a manager that is
wrong, slow or partitioned delays runs and never doubles them. So a manager reads neither runs nor journal, and the
owner noted in a run's row is only an index into its grants, which may be stale in both directions. Whoever has the
grant writes the row: a worker that gets it claims the run; an owner whose run the store freed by mistake writes itself
back (`Leases.reinstate`). A worker that is refused writes nothing: the store may not have caught up with the owner.

The manager may be far away. A pass of a worker asks once for all its runs (`acquire_many`), grants are given back
beside the passes, and heartbeats have a thread of their own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol, TypeAlias, runtime_checkable

import msgspec


class Grant(msgspec.Struct, frozen=True, gc=False):
    """A worker's right to try a run."""

    run: str
    worker: str
    acquired_at: datetime
    expires_at: datetime


class OwnedBy(msgspec.Struct, frozen=True, gc=False):
    """Another worker has the grant, until then at least. `expires_at` takes its heartbeats into account."""

    worker: str
    expires_at: datetime


class Released(msgspec.Struct, frozen=True, gc=False):
    """The run is free, also if it was not held."""


class NotOwner(msgspec.Struct, frozen=True, gc=False):
    """Another worker has the grant: it stays in place."""

    worker: str


class Standing(msgspec.Struct, frozen=True, gc=False):
    """A worker as the manager knows it. One that holds grants and never sent a heartbeat is not live."""

    worker: str
    is_live: bool
    active: int
    seen_at: datetime | None


class Member(msgspec.Struct, frozen=True, gc=False):
    """A server of the manager: what it says of itself, or its problem."""

    address: str
    role: str
    problem: str = ""


class GrantsCondition(msgspec.Struct, frozen=True, gc=False):
    """What stands behind a manager, for `holdfast doctor`."""

    name: str
    members: tuple[Member, ...]


Acquiring: TypeAlias = Grant | OwnedBy
Releasing: TypeAlias = Released | NotOwner


class Grants(Protocol):
    """Who may try. Contention is a value, never an exception.

    Every verb answers or raises in bounded time: a manager that cannot be reached raises `StoreUnavailable`. What was
    asked for may have been done all the same, so each verb may be repeated. `heartbeat` is called from a thread, the
    others from the worker's event loop.
    """

    async def acquire(self, run: str, worker: str, ttl: timedelta) -> Acquiring:
        """The grant, if the run is free, its grant has run out, or it is this worker's already (then renewed).

        Atomic: of any number of concurrent callers one gets it. The loser changes nothing.
        """
        ...

    async def acquire_many(self, runs: Sequence[str], worker: str, ttl: timedelta) -> Mapping[str, Acquiring]:
        """`acquire` for each of these runs, all different, with an answer for each. Each is decided for itself: one
        that another worker has keeps none of the others from being granted.

        The time is that of one call, or of a few for hundreds of runs; it never grows by a round trip a run. If it
        raises, any of the runs may have been granted: the worker gives them back, or asks again."""
        ...

    async def release(self, run: str, worker: str) -> Releasing:
        """Gives a grant back."""
        ...

    async def release_all(self, worker: str) -> Sequence[str]:
        """Gives back every grant of the worker and forgets its heartbeat; other workers' grants stay. Returns the
        runs."""
        ...

    def heartbeat(self, worker: str, ttl: timedelta) -> None:
        """The worker lives: all its grants hold for `ttl` from now at least. Those that had run out stay so.

        Blocking, called from a thread that does nothing else: a busy event loop costs no lease, and a manager that
        does not answer costs none of the store's."""
        ...

    async def get(self, run: str) -> Grant | None:
        """The grant in force; None if there is none or it has run out."""
        ...

    async def workers(self) -> Sequence[Standing]:
        """Everyone who sent a heartbeat or holds grants, by id, with how many grants each holds."""
        ...

    def orphans(self) -> AsyncIterator[str] | None:
        """Runs whose grant went away, as they do; None if the manager can only be polled. A hint: the poll is the
        truth, and workers look anyway."""
        ...

    async def close(self) -> None:
        """Lets go of connections. Grants stay until they are given back or run out."""
        ...


@runtime_checkable
class ExaminedGrants(Protocol):
    """A manager that can be examined."""

    async def condition(self) -> GrantsCondition:
        """Who answers for it."""
        ...

    async def holders(self) -> Mapping[str, str]:
        """Every run that is granted now, and the worker it is granted to."""
        ...
