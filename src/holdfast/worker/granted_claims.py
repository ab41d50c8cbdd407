"""Claims of a worker whose leases are granted outside the store.

A worker asks for a grant before the claim: a refused worker has raised no epoch and fenced no other. It writes nothing
either. The owner that the manager names may be about to claim the run, or may have released it meanwhile; so a refused
worker waits a moment and asks again. The owner itself repairs disagreements: it claims what it was granted, and writes
itself back into a row that the store freed by mistake.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from holdfast.errors import StoreError, StoreUnavailable
from holdfast.ports.facts import GrantsBack, GrantsLost, Trouble
from holdfast.ports.grants import Acquiring, Grants, OwnedBy
from holdfast.ports.leases import ClaimRequest, Claims
from holdfast.ports.runs import RunRow
from holdfast.worker.seat import Seat

PAUSE = 2.0
"""Seconds after which a stream of orphans that ended is opened again, and a grant that could not be released is
released again."""

FIRST_REST = 0.05
"""Seconds for which a run of another worker is left alone at first, or twice the manager's answering time. The owner
claims it meanwhile. The time doubles whenever the manager names the owner again, up to a poll."""

AT_ONCE = 100
"""Maximum number of grants released at the same time."""


class _NoAnswer(Exception):
    """The manager does not answer. Separate from the store's errors, which are handled differently."""

    def __init__(self, error: StoreUnavailable) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(slots=True)
class _Left:
    """A due run whose grant another worker has."""

    worker: str
    epoch: int
    times: int
    until: float


class Granted:
    """The grants of one worker: acquired before claims, released when a run is no longer here."""

    def __init__(self, grants: Grants, worker: Seat) -> None:
        self._grants = grants
        self._worker = worker
        self._pulse = worker.heartbeat.pulse(self.beat)
        worker.engine.holdings.keep = self.keep
        self._held: dict[str, None] = {}
        """Runs that the manager may have granted us, in the order of asking."""
        self._trying: set[str] = set()
        """Granted runs that this pass may claim: not here yet."""
        self._returning: set[str] = set()
        """Grants being released: asked for again now, they might be granted and then taken away."""
        self._left: dict[str, _Left] = {}
        self._told: set[str] = set()
        """Runs being asked for whose grant disappeared meanwhile: the answer may be older than that."""
        self._took = 0.0
        """Seconds that the manager took to answer."""
        self._is_returning = self._is_skipped = False
        self._lost_until = -1.0
        """Until when the manager is not asked again because it did not answer; -1 while it answers."""
        self._lacks_grants = False
        """Whether runs that were claimed without a grant may be here."""
        self.refused: set[str] = set()
        """Own runs of the last claim that others have, already counted."""

    @property
    def _ttl(self) -> timedelta:
        return self._worker.options.ttl

    @property
    def _poll(self) -> float:
        return self._worker.options.poll.total_seconds()

    def _time(self) -> float:
        return asyncio.get_running_loop().time()

    def _trouble(self, what: str, error: Exception) -> None:
        self._worker.telemetry.tell(Trouble(what, error, worker=self._worker.options.id))

    # -- heartbeats ----------------------------------------------------------------------------------------------------

    def tell(self) -> None:
        """Tells the manager that the worker is alive. From the heartbeat's thread, once the store has heard it."""
        self._pulse.tell()

    def beat(self) -> None:
        """One heartbeat. Errors are the manager's: the store's own heartbeat continues."""
        try:
            self._grants.heartbeat(self._worker.options.id, self._ttl)
        except Exception as error:  # noqa: BLE001 the manager's client may raise anything
            self._trouble("the lease manager took no heartbeat", error)

    # -- claims --------------------------------------------------------------------------------------------------------

    async def claim(self, request: ClaimRequest) -> Claims:
        """Runs that are due by the store and granted by the manager."""
        self.refused.clear()
        if self._time() < self._lost_until:
            return await self._claim_from_store(request)
        try:
            if self._lacks_grants:
                await self._make_up()
            return await self._claim(request)
        except _NoAnswer as lost:
            if self._worker.options.on_loss == "stop":
                raise lost.error from lost
            self._lose(lost.error)
            return await self._claim_from_store(request)

    async def _claim(self, request: ClaimRequest) -> Claims:
        limit = request.limit
        if request.only:
            answers = await self._ask([run for run in request.only if not self._worker.engine.knows(run)])
            self._count_refused(answers)
            return await self._claim_granted(request, answers, Claims([], None))
        self._forget()
        page = limit + len(self._left) + len(self._returning)
        due = await self._worker.store.due(msgspec.structs.replace(request, limit=page))
        wanted = {run.id: run.epoch for run in due.runs if self._is_asked_for(run)}
        answers = await self._ask(list(wanted)[:limit])
        is_refused = self._leave(answers, wanted)
        is_more = is_refused and (len(wanted) > limit or len(due.runs) == page)
        found = Claims([], self._next_due(due.next_due, is_more=is_more), due.put_off)
        return await self._claim_granted(request, answers, found)

    def _is_asked_for(self, run: RunRow) -> bool:
        left = self._left.get(run.id)
        is_left = left is not None and left.epoch == run.epoch and self._time() < left.until
        is_returning = run.id in self._returning
        self._is_skipped |= is_returning
        return not (is_left or is_returning or self._worker.engine.knows(run.id))

    async def _ask(self, runs: Sequence[str]) -> Mapping[str, Acquiring]:
        if not runs:
            return {}
        self._trying.update(runs)
        self._held.update(dict.fromkeys(runs))  # before the answer, which may get lost
        self._told.clear()
        began = self._time()
        try:
            answers = await self._grants.acquire_many(runs, self._worker.options.id, self._ttl)
        except StoreUnavailable as error:
            raise _NoAnswer(error) from error
        self._took = self._time() - began
        if self._lost_until >= 0:
            self._lost_until = -1.0
            self._worker.telemetry.tell(GrantsBack(self._worker.options.id))
        for run in runs:
            if isinstance(answers[run], OwnedBy):
                self._trying.discard(run)
                self._held.pop(run, None)
        return answers

    async def _claim_granted(self, request: ClaimRequest, answers: Mapping[str, Acquiring], found: Claims) -> Claims:
        may = [run for run, answer in answers.items() if not isinstance(answer, OwnedBy)]
        if not may:
            return found
        taken = await self._worker.store.claim(msgspec.structs.replace(request, only=tuple(may)))
        return Claims(taken.runs, found.next_due, (*found.put_off, *taken.put_off))

    # -- without the manager -------------------------------------------------------------------------------------------

    def _lose(self, error: StoreUnavailable) -> None:
        if self._lost_until < 0:
            self._worker.telemetry.tell(GrantsLost(self._worker.options.id, error))
        self._lost_until = self._time() + PAUSE

    async def _claim_from_store(self, request: ClaimRequest) -> Claims:
        """Runs that are due by the store alone: its epoch keeps out a worker that was granted the same run
        elsewhere."""
        self._lacks_grants = True
        return await self._worker.store.claim(request)

    async def _make_up(self) -> None:
        """Asks for the grants of all runs that are here: some were claimed without. A run whose grant another worker
        has is released soon, since that worker cannot claim it; it is asked for again at the next pass."""
        answers = await self._ask(list(self._worker.engine.sessions))
        self._trying.difference_update(answers)
        self._lacks_grants = any(isinstance(answer, OwnedBy) for answer in answers.values())

    def passed(self) -> None:
        """A pass is over: what it claimed is here; grants that it did not use are released."""
        self._trying.clear()
        if self._held:
            self.freed()

    # -- runs of others ------------------------------------------------------------------------------------------------

    def _leave(self, answers: Mapping[str, Acquiring], epochs: Mapping[str, int]) -> bool:
        """Leaves runs of others alone for a while. Returns whether there are any. Two workers asking for a new run is
        normal; an owner that has not claimed it by the next time is not."""
        is_refused = False
        for run, answer in answers.items():
            known = self._left.pop(run, None)
            if not isinstance(answer, OwnedBy):
                continue
            is_refused = True
            if run in self._told:
                continue  # it is free by now
            is_again = known is not None and (known.worker, known.epoch) == (answer.worker, epochs[run])
            times = known.times + 1 if known is not None and is_again else 1
            if times == 2:
                self._met(run, answer)
            rest = min(max(FIRST_REST, self._took * 2) * 2 ** min(times - 1, 10), self._poll)
            self._left[run] = _Left(answer.worker, epochs[run], times, self._time() + rest)
        return is_refused

    def _count_refused(self, answers: Mapping[str, Acquiring]) -> None:
        for run, answer in answers.items():
            if isinstance(answer, OwnedBy):
                self.refused.add(run)
                self._met(run, answer)

    def _met(self, run: str, owner: OwnedBy) -> None:
        self._worker.met("contended", run, f"worker {owner.worker} has its lease until {owner.expires_at:%H:%M:%S}")

    def _forget(self) -> None:
        """Forgets runs that rested and were not seen again: their owner has them, or they ended."""
        now = self._time()
        self._left = {run: left for run, left in self._left.items() if now < left.until + 2 * self._poll}

    def _next_due(self, by_store: datetime | None, *, is_more: bool) -> datetime | None:
        """When to look again: as the store says, or when the next run has rested."""
        now = self._time()
        ends = [now] if is_more else [left.until for left in self._left.values() if now < left.until]
        if not ends:
            return by_store
        at = self._worker.store.clock.now() + timedelta(seconds=min(ends) - now)
        return at if by_store is None else min(at, by_store)

    # -- our runs ------------------------------------------------------------------------------------------------------

    async def keep(self, lost: Mapping[str, int]) -> Collection[str]:
        """The runs that stay, of those that execute here and that the store no longer lists as ours. The store may have
        freed them by mistake; the manager decides. While it does not answer they stay too, unless another worker has
        claimed them: then our write would be fenced."""
        worker = self._worker
        kept: set[str] = set()
        try:
            answers = await self._grants.acquire_many(list(lost), worker.options.id, self._ttl)
        except Exception as error:  # noqa: BLE001 the manager's client may raise anything
            self._trouble(f"the lease manager does not say who has {len(lost)} run(s)", error)
            return {run for run, epoch in lost.items() if await self._is_unclaimed(run, epoch)}
        for run, epoch in lost.items():
            if isinstance(answers[run], OwnedBy):
                continue
            self._held[run] = None
            try:
                is_back = await worker.store.reinstate(run, instance=worker.options.instance, epoch=epoch)
            except StoreError:
                worker.engine.doubt()  # it may have been done
                raise
            if is_back:
                kept.add(run)
        return kept

    async def _is_unclaimed(self, run: str, epoch: int) -> bool:
        row = await self._worker.store.get(run)
        return row is not None and row.epoch == epoch and not row.status.is_terminal

    def freed(self) -> None:
        """A run may have left this worker: its grant is released soon."""
        if not self._is_returning:
            self._is_returning = True
            self._worker.engine.spawn(self._return_soon())

    async def _return_soon(self) -> None:
        await asyncio.sleep(0)
        self._is_returning = False
        if not await self._give_back():
            await asyncio.sleep(PAUSE)
            self.freed()

    async def _give_back(self) -> bool:
        """Releases grants of runs that are neither here nor about to be. Returns whether the manager confirmed all of
        it."""
        knows, others = self._worker.engine.knows, self._trying | self._returning
        runs = [run for run in self._held if run not in others and not knows(run)]
        is_done = True
        for first in range(0, len(runs), AT_ONCE):
            part = runs[first : first + AT_ONCE]
            is_done = all(await asyncio.gather(*map(self._release, part))) and is_done
        return is_done

    async def _release(self, run: str) -> bool:
        if run in self._trying or run not in self._held or self._worker.engine.knows(run):
            return True  # asked for again meanwhile
        self._returning.add(run)
        try:
            await self._grants.release(run, self._worker.options.id)
        except Exception as error:  # noqa: BLE001 the manager's client may raise anything
            self._worker.telemetry.tell(Trouble("releasing its grant failed, retrying", error, run=run))
            return False
        else:
            self._held.pop(run, None)
            return True
        finally:
            self._returning.discard(run)
            if self._is_skipped:
                self._is_skipped = False
                self._worker.work_hinted.set()

    async def close(self) -> None:
        """Releases everything, including the heartbeat, so that others need not wait. Errors of the manager are only
        reported."""
        await asyncio.get_running_loop().run_in_executor(None, self._pulse.stop)
        try:
            await self._grants.release_all(self._worker.options.id)
        except Exception as error:  # noqa: BLE001 the manager's client may raise anything
            self._trouble("grants not released; they will expire", error)

    async def watch(self) -> None:
        """Looks for work when a grant disappears; which run it was does not say what is due."""
        while True:
            try:
                stream = self._grants.orphans()
                if stream is None:
                    return
                async for run in stream:
                    if run in self._trying:
                        self._told.add(run)
                    self._left.pop(run, None)
                    self._worker.work_hinted.set()
            except Exception as error:  # noqa: BLE001 the manager's client may raise anything
                self._trouble("the stream of orphans from the lease manager ended", error)
            await asyncio.sleep(PAUSE)
