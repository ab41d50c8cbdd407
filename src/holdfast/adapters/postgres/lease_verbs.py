"""The verbs of `ports.leases` that are one function call or one query each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from holdfast.adapters.postgres import leases
from holdfast.adapters.postgres import statements as sql
from holdfast.adapters.postgres.clock import Moments
from holdfast.adapters.postgres.link import Link
from holdfast.adapters.sql.rows import maybe_micros
from holdfast.core.shares import Claimers
from holdfast.ports.leases import ClaimRequest, Claims, Held, Lease, Taken, Taking, WorkerRow

T = TypeVar("T")


class LeaseVerbs(ABC):
    """The part of a PostgreSQL store that lends runs to workers."""

    _moments: Moments
    _claimers: Claimers

    @abstractmethod
    async def _run(self, ask: Callable[[Link], T]) -> T: ...

    @abstractmethod
    async def _rows(self, statement: str, *values: object) -> Any: ...

    @abstractmethod
    def _tell(self, runs: Iterable[str]) -> None: ...

    async def claim(self, request: ClaimRequest) -> Claims:
        """See `ports.leases`. `max_claims` has no effect here: such a run is claimed too."""
        shares = self._claimers[request.worker.instance]
        ahead = shares.ahead
        claims, taken = await self._run(lambda link: leases.claim(link, self._moments, request, ahead))
        shares.took(taken)
        return claims

    async def due(self, request: ClaimRequest) -> Claims:
        """See `ports.leases`."""
        ahead = self._claimers[request.worker.instance].ahead
        claims, _ = await self._run(lambda link: leases.claim(link, self._moments, request, ahead, takes=False))
        return claims

    async def acquit(self, run: int, *, epoch: int) -> bool:
        """See `ports.leases`."""
        return bool(await self._rows(sql.ACQUIT, run, epoch))

    async def reinstate(self, run: str, *, instance: str, epoch: int) -> bool:
        """See `ports.leases`."""
        ((is_done,),) = await self._rows(sql.REINSTATE, run, instance, epoch)
        return bool(is_done)

    async def lease(self, run: str) -> Lease | None:
        """See `ports.leases`."""
        return await self._run(lambda link: leases.lease(link, self._moments, run))

    async def held(self, instance: str) -> Mapping[str, Held]:
        """See `ports.leases`."""
        return {run: Held(epoch, inbox_last) for run, epoch, inbox_last in await self._rows(sql.HELD, instance)}

    async def take(self, run: str, *, instance: str, steal: bool = False) -> Taking:
        """See `ports.leases`."""
        taking = await self._run(lambda link: leases.take(link, self._moments, run, instance, steal=steal))
        if isinstance(taking, Taken):
            self._claimers.count(instance, taking.run.workflow)
        return taking

    async def release(self, run: int, *, epoch: int, until: datetime | None, inbox_seen: int, note: str = "") -> bool:
        """See `ports.leases`."""
        ((released,),) = await self._rows(
            sql.RELEASE, self._moments.wall(), run, epoch, maybe_micros(until), inbox_seen, note
        )
        self._tell(() if released is None else (released,))
        return released is not None

    async def release_all(self, instance: str) -> int:
        """See `ports.leases`."""
        self._claimers.pop(instance, None)
        ((released,),) = await self._rows(sql.RELEASE_ALL, self._moments.wall(), instance)
        self._tell(released)
        return len(released)

    async def workers(self) -> Sequence[WorkerRow]:
        """See `ports.leases`. Live workers come first, each group by its start."""
        return await self._run(lambda link: leases.workers(link, self._moments))
