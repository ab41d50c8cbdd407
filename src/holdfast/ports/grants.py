"""Grants: leases kept outside the store, by a manager that a fleet already trusts (etcd, NATS).

A grant says which worker *may try* to advance a run. The store's epoch always decides who commits: a manager that is
wrong, slow or partitioned delays runs but never runs one twice. So a manager reads neither runs nor journal, and the
owner noted in a run's row is only an index into its grants, which may be stale in both directions. Only the worker with
the grant writes the row: a worker that gets it claims the run; an owner whose run the store freed by mistake writes
itself back (`Leases.reinstate`). A refused worker writes nothing: the store may lag behind the owner.

The manager may be far away. A pass of a worker asks once for all its runs (`acquire_many`), grants are released in the
background, and heartbeats have their own thread.
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
    """Another worker has the grant, at least until then. `expires_at` takes its heartbeats into account."""

    worker: str
    expires_at: datetime


class Released(msgspec.Struct, frozen=True, gc=False):
    """The run is free, even if it was not held before."""


class NotOwner(msgspec.Struct, frozen=True, gc=False):
    """Another worker has the grant, which stays."""

    worker: str


class Standing(msgspec.Struct, frozen=True, gc=False):
    """A worker as the manager sees it. One that holds grants but never sent a heartbeat is not live."""

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
    """The condition of a manager, for `holdfast doctor`."""

    name: str
    members: tuple[Member, ...]


Acquiring: TypeAlias = Grant | OwnedBy
Releasing: TypeAlias = Released | NotOwner


class Grants(Protocol):
    """Who may try. Contention is a value, never an exception.

    Every verb answers or raises in bounded time: a manager that cannot be reached raises `StoreUnavailable`. The
    request may have been carried out nevertheless, so each verb may be repeated. `heartbeat` is called from a thread,
    the others from the worker's event loop.
    """

    async def acquire(self, run: str, worker: str, ttl: timedelta) -> Acquiring:
        """The grant, if the run is free, its grant has expired, or this worker has it already (then renewed). Atomic:
        exactly one of any number of concurrent callers gets it. The others change nothing.
        """
        ...

    async def acquire_many(self, runs: Sequence[str], worker: str, ttl: timedelta) -> Mapping[str, Acquiring]:
        """`acquire` for each of these runs, all different, with an answer for each. Each is decided separately: a run
        that another worker has does not affect the others. It takes the time of one call, or of a few for hundreds of
        runs, never a round trip per run. If it raises, any of the runs may have been granted: the worker releases them,
        or asks again."""
        ...

    async def release(self, run: str, worker: str) -> Releasing:
        """Gives a grant back."""
        ...

    async def release_all(self, worker: str) -> Sequence[str]:
        """Releases every grant of the worker and forgets its heartbeat; other workers' grants stay. Returns the
        runs."""
        ...

    def heartbeat(self, worker: str, ttl: timedelta) -> None:
        """The worker is alive: all its grants are valid for at least `ttl` from now. Expired ones stay expired.
        Blocking, called from a dedicated thread: a busy event loop loses no lease, and a manager that does not answer
        affects none of the store's leases."""
        ...

    async def get(self, run: str) -> Grant | None:
        """The current grant; None if there is none or it has expired."""
        ...

    async def workers(self) -> Sequence[Standing]:
        """All workers that sent a heartbeat or hold grants, by id, with their number of grants."""
        ...

    def orphans(self) -> AsyncIterator[str] | None:
        """Runs whose grant disappears, as it happens; None if the manager can only be polled. A hint: workers poll
        anyway."""
        ...

    async def close(self) -> None:
        """Closes connections. Grants stay until they are released or expire."""
        ...


@runtime_checkable
class ExaminedGrants(Protocol):
    """A manager that can be examined."""

    async def condition(self) -> GrantsCondition:
        """The servers of the manager and their condition."""
        ...

    async def holders(self) -> Mapping[str, str]:
        """Every granted run, with its worker."""
        ...
