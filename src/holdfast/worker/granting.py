"""Claims of a worker whose leases are granted outside the store.

A grant is asked for before the claim: whoever is refused has raised no epoch and fenced nobody. Both directions of
being wrong heal here. The store thought a run free whose owner lives: the owner the manager names is written back. The
store thought nobody's what the manager now grants us: the claim writes us into its row.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from holdfast.errors import StoreError
from holdfast.ports.grants import Grants, OwnedBy
from holdfast.ports.leases import Claims, WorkerRow

if TYPE_CHECKING:
    from holdfast.worker.worker import Worker

LOG = logging.getLogger("holdfast.worker")
PAUSE = 2.0
"""Seconds after which a stream of orphans that ended is taken up again."""

LEAST = timedelta(seconds=1)
"""How long a run that another has is left alone at least: the manager's clock may be behind the store's."""


class Granted:
    """The grants of one worker: acquired before claims, given back when a run is no longer here."""

    def __init__(self, grants: Grants, worker: Worker) -> None:
        self._grants = grants
        self._worker = worker
        self._held: set[str] = set()
        self._is_returning = False
        self.refused: set[str] = set()
        """Runs of the last claim that others have: met and counted there."""

    @property
    def _ttl(self) -> timedelta:
        return self._worker.options.ttl

    def beat(self) -> None:
        """From the heartbeat's thread. What goes wrong is the manager's: the store's own heartbeat goes on."""
        try:
            self._grants.heartbeat(self._worker.options.id, self._ttl)
        except Exception as error:  # noqa: BLE001 the manager's client may raise anything
            LOG.warning("worker %s: the lease manager took no heartbeat: %s", self._worker.options.id, error)

    async def claim(self, row: WorkerRow, limit: int, only: Sequence[str]) -> Claims:
        """What the store says is due and the manager lets us try."""
        worker = self._worker
        worker.engine.doubt()  # others may write us into a row at any time, as the owner the manager named
        await self.give_back()
        due = None if only else await worker.store.due(row, limit=limit)
        wanted = only if due is None else [run.id for run in due.runs]
        self.refused.clear()
        may = [run for run in wanted if await self._may_try(run)]
        claims = Claims([], None if due is None else due.next_due, () if due is None else due.put_off)
        if may:
            max_claims = worker.engine.settings.max_claims
            taken = await worker.store.claim(row, limit=limit, max_claims=max_claims, only=may)
            claims = Claims(taken.runs, claims.next_due, (*claims.put_off, *taken.put_off))
            await self._release(set(may) - {run.id for run in taken.runs})
        return claims

    async def _may_try(self, run: str) -> bool:
        worker = self._worker
        if run in worker.engine.sessions or run in worker.engine.opening:
            return False  # it is executing here
        answer = await self._grants.acquire(run, worker.options.id, self._ttl)
        if isinstance(answer, OwnedBy):
            self.refused.add(run)
            worker.met("contended", run, f"worker {answer.worker} has its lease until {answer.expires_at:%H:%M:%S}")
            until = max(answer.expires_at, worker.store.clock.now() + LEAST)
            await worker.store.reinstate(run, worker=answer.worker, until=until)
            return False
        self._held.add(run)
        return True

    def freed(self) -> None:
        """A run may have left this worker: its grant is given back soon."""
        if not self._is_returning:
            self._is_returning = True
            self._worker.engine.spawn(self._return_soon())

    async def _return_soon(self) -> None:
        await asyncio.sleep(0)
        self._is_returning = False
        try:
            await self.give_back()
        except StoreError as error:
            LOG.warning("worker %s: grants not given back, trying again: %s", self._worker.options.id, error)

    async def give_back(self) -> None:
        """Grants of runs that are neither here nor being opened."""
        engine = self._worker.engine
        await self._release({run for run in self._held if run not in engine.sessions and run not in engine.opening})

    async def _release(self, runs: Iterable[str]) -> None:
        for run in runs:
            self._held.discard(run)  # before the answer: asked for again meanwhile, it is held again
            try:
                await self._grants.release(run, self._worker.options.id)
            except BaseException:
                self._held.add(run)  # what the manager did not hear is said again
                raise

    async def release_all(self) -> None:
        """Everything, and the heartbeat: others need not wait. What goes wrong is the manager's here too."""
        try:
            await self._grants.release_all(self._worker.options.id)
        except Exception as error:  # noqa: BLE001 the manager's client may raise anything
            LOG.warning("worker %s: grants not given back, they will run out: %s", self._worker.options.id, error)

    async def watch(self) -> None:
        """A grant that went away is a reason to look; which run it was says nothing about what is due."""
        while True:
            try:
                stream = self._grants.orphans()
                if stream is None:
                    return
                async for _ in stream:
                    self._worker.work_hinted.set()
            except Exception as error:  # noqa: BLE001 the manager's client may raise anything
                LOG.warning("worker %s: the lease manager tells of no orphans: %s", self._worker.options.id, error)
            await asyncio.sleep(PAUSE)
