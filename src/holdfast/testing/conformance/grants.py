"""Grants: which worker may try. The same cases for a lease manager apart from the store and for the leases of a
store."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import timedelta

import pytest

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.ports.grants import Acquiring, Grant, Grants, NotOwner, OwnedBy, Released, Releasing, Standing
from holdfast.ports.leases import HeldBy, Taken, WorkerRow
from holdfast.ports.store import Store
from holdfast.testing.conformance.suite import Blocking, shows
from holdfast.testing.conformance.world import START, TTL, new_run, seconds

RUNS = ("r", "s", "t", "u")
WORKERS = tuple(f"w{count}" for count in range(8))


class StoreGrants:
    """The leases of a store, seen as grants: a worker is its own instance, acquiring is taking."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._acquired: dict[tuple[str, str], Grant] = {}

    async def prepare(self) -> None:
        """Creates runs and workers, which a store must know. None of the workers is live yet."""
        now = self._store.clock.now()
        for run in RUNS:
            await self._store.create(new_run(run, now), key_since=now)
        for worker in WORKERS:
            row = WorkerRow(
                instance=worker, worker=worker, queues=("default",), definitions=(), pid=0, host="here", started_at=now
            )
            await self._store.register(row, TTL, takes_over="none")
            await self._store.release_all(worker)

    async def acquire(self, run: str, worker: str, ttl: timedelta) -> Acquiring:
        """Takes the run, unless a live worker holds it; the worker's own lease is renewed."""
        self._store.heart(worker, ttl).beat(frees=0)
        taking = await self._store.take(run, instance=worker)
        if isinstance(taking, HeldBy) and taking.instance != worker:
            return OwnedBy(taking.instance, taking.expires_at)
        assert isinstance(taking, Taken | HeldBy)
        now = self._store.clock.now()
        earlier = self._acquired.get((run, worker)) if isinstance(taking, HeldBy) else None
        grant = Grant(run, worker, earlier.acquired_at if earlier else now, now + ttl)
        self._acquired[run, worker] = grant
        return grant

    async def acquire_many(self, runs: Sequence[str], worker: str, ttl: timedelta) -> Mapping[str, Acquiring]:
        """One after the other: for many at once, a store has `claim`."""
        return {run: await self.acquire(run, worker, ttl) for run in runs}

    async def release(self, run: str, worker: str) -> Releasing:
        """Gives the lease back, by its epoch."""
        lease = await self._store.lease(run)
        if lease is None:
            return Released()
        if lease.instance != worker:
            return NotOwner(lease.instance)
        row = await self._store.get(run)
        assert row is not None
        await self._store.release(row.no, epoch=lease.epoch, until=None, inbox_seen=row.inbox_last)
        return Released()

    async def release_all(self, worker: str) -> Sequence[str]:
        """Everything of the worker, which is ended."""
        runs = list(await self._store.held(worker))
        assert await self._store.release_all(worker) == len(runs)
        return runs

    def heartbeat(self, worker: str, ttl: timedelta) -> None:
        """A beat of its instance, which also frees what others lost."""
        self._store.heart(worker, ttl).beat()

    async def get(self, run: str) -> Grant | None:
        """The lease in force."""
        lease = await self._store.lease(run)
        if lease is None:
            return None
        acquired = self._acquired[run, lease.instance].acquired_at
        return Grant(run, lease.instance, acquired, lease.expires_at)

    async def workers(self) -> Sequence[Standing]:
        """Every instance that was not ended."""
        rows = [row for row in await self._store.workers() if row.is_live or row.active]
        found = [Standing(row.worker, row.is_live, row.active, row.seen_at) for row in rows]
        return sorted(found, key=lambda standing: standing.worker)

    def orphans(self) -> AsyncIterator[str] | None:
        """None: a store reports freed runs by hints and polling."""
        return None

    async def close(self) -> None:
        """Does nothing: the caller that opened the store closes it."""


class GrantsSuite(Blocking, ABC):
    """Which worker may try a run. Subclass it as `Test…` and define how your manager is made."""

    ttl: timedelta = TTL
    """How long grants last. A manager that counts in whole seconds needs a few."""

    slack: timedelta = timedelta(0)
    """Tolerance of the instants that it names, and how long before its end a grant is certainly valid."""

    clock: VirtualClock

    @abstractmethod
    async def open(self, clock: VirtualClock) -> Grants:
        """A new manager without grants that uses `clock`. It must know these beforehand: `RUNS`, `WORKERS`."""
        ...

    @abstractmethod
    async def reopen(self, grants: Grants) -> Grants | None:
        """The same manager, opened by another process: the grants are there. None if a worker that comes back has
        another id to the manager."""
        ...

    def make_clock(self) -> VirtualClock:
        """The clock of a case. For a manager that is a separate server, `advance` really waits."""
        return VirtualClock(START)

    async def until_gone(self, grants: Grants, run: str) -> None:
        """Waits until an expired grant is seen as such: at once, or when the manager next checks."""
        async with asyncio.timeout(30):
            while await grants.get(run) is not None:
                assert self.slack, "a grant that has run out is still there"
                await asyncio.sleep(0.05)

    def same(self, found: object, expected: Grant | OwnedBy | None) -> bool:
        """Whether it is as expected, within the manager's tolerance."""
        if isinstance(found, Grant) and isinstance(expected, Grant):
            return (found.run, found.worker) == (expected.run, expected.worker) and all(
                abs(one - other) <= self.slack
                for one, other in ((found.acquired_at, expected.acquired_at), (found.expires_at, expected.expires_at))
            )
        if isinstance(found, OwnedBy) and isinstance(expected, OwnedBy):
            return found.worker == expected.worker and abs(found.expires_at - expected.expires_at) <= self.slack
        return found is None and expected is None

    async def close(self) -> None:
        """Releases what `open` acquired, if anything."""

    @pytest.fixture
    def grants(self) -> Iterator[Grants]:
        """A separate manager for each case."""
        with asyncio.Runner() as runner:
            self.runner = runner
            self.clock = self.make_clock()
            grants = runner.run(self.open(self.clock))
            yield grants
            runner.run(grants.close())
            runner.run(self.close())

    @shows("stepflow.L2", "stepflow.L8")
    async def test_a_free_run_is_granted(self, grants: Grants) -> None:
        """Contract: to the first worker that asks, until a lease from now."""
        assert await grants.get("r") is None
        granted = await grants.acquire("r", "w1", self.ttl)
        assert isinstance(granted, Grant)
        assert self.same(granted, Grant("r", "w1", self.clock.now(), self.clock.now() + self.ttl))
        assert self.same(await grants.get("r"), granted)

    @shows("stepflow.L3", "traps.A7")
    async def test_a_granted_run_is_owned(self, grants: Grants) -> None:
        """Contract: a value that names the owner and its expiry; the grant is as it was."""
        granted = await grants.acquire("r", "w1", self.ttl)
        answer = await grants.acquire("r", "w2", self.ttl * 5)
        assert self.same(answer, OwnedBy("w1", self.clock.now() + self.ttl))
        assert self.same(await grants.get("r"), granted)

    @shows("stepflow.L4", "traps.A7")
    async def test_the_owner_acquires_again(self, grants: Grants) -> None:
        """Contract: idempotent: the same grant, its expiry renewed."""
        first = await grants.acquire("r", "w1", self.ttl)
        assert isinstance(first, Grant)
        self.clock.advance(self.ttl * 0.5)
        again = await grants.acquire("r", "w1", self.ttl)
        assert self.same(again, Grant("r", "w1", first.acquired_at, self.clock.now() + self.ttl))

    @shows("stepflow.L5", "stepflow.L8", "stem.S60", "traps.A7")
    async def test_a_grant_that_ran_out_is_anybodys(self, grants: Grants) -> None:
        """Contract: expiry counts when the grant is read, before anything has cleared it, and not a moment earlier."""
        await grants.acquire("r", "w1", self.ttl)
        early = self.slack or seconds(0.001)
        self.clock.advance(self.ttl - early)
        assert isinstance(await grants.acquire("r", "w2", self.ttl), OwnedBy)
        self.clock.advance(early)
        await self.until_gone(grants, "r")
        answer = await grants.acquire("r", "w2", self.ttl)
        assert self.same(answer, Grant("r", "w2", self.clock.now(), self.clock.now() + self.ttl))

    @shows("stepflow.L9", "traps.A7", "stem.S60")
    async def test_one_heartbeat_keeps_all_grants_of_a_worker(self, grants: Grants) -> None:
        """Contract: for as long as it beats, all of them and no others."""
        for run in ("r", "s"):
            await grants.acquire(run, "w1", self.ttl)
        await grants.acquire("t", "w2", self.ttl)
        for _ in range(3):
            self.clock.advance(self.ttl * 0.6)
            grants.heartbeat("w1", self.ttl)
        for run in ("r", "s"):
            grant = await grants.get(run)
            assert grant is not None
            assert abs(grant.expires_at - self.clock.now() - self.ttl) <= self.slack
        await self.until_gone(grants, "t")

    @shows("stepflow.L12")
    async def test_the_expiry_others_see_follows_the_heartbeat(self, grants: Grants) -> None:
        """Contract: `OwnedBy` names the time after the last heartbeat, not the one at acquiring."""
        await grants.acquire("r", "w1", self.ttl)
        self.clock.advance(self.ttl * 0.5)
        grants.heartbeat("w1", self.ttl)
        answer = await grants.acquire("r", "w2", self.ttl)
        assert self.same(answer, OwnedBy("w1", self.clock.now() + self.ttl))

    @shows("stepflow.L9")
    async def test_a_late_heartbeat_brings_nothing_back(self, grants: Grants) -> None:
        """Contract: an expired grant that another worker got stays there."""
        await grants.acquire("r", "w1", self.ttl)
        grants.heartbeat("w1", self.ttl)
        self.clock.advance(self.ttl)
        await self.until_gone(grants, "r")
        assert isinstance(await grants.acquire("r", "w2", self.ttl), Grant)
        grants.heartbeat("w1", self.ttl)
        assert self.same(await grants.acquire("r", "w1", self.ttl), OwnedBy("w2", self.clock.now() + self.ttl))

    @shows("stepflow.L9", "stepflow.L4")
    async def test_a_worker_that_came_back_keeps_what_it_asks_for(self, grants: Grants) -> None:
        """Contract: the grants of its earlier process are its own when it asks for them, and expire otherwise: it may
        be too full to take them, and its heartbeat must not keep them from others."""
        again = await self.reopen(grants)
        if again is None:
            return
        try:
            for run in ("r", "s"):
                await grants.acquire(run, "w1", self.ttl)
            grants.heartbeat("w1", self.ttl)
            self.clock.advance(self.ttl * 0.5)
            assert isinstance(await again.acquire("r", "w1", self.ttl), Grant)
            again.heartbeat("w1", self.ttl)
            assert isinstance(await again.acquire("s", "w2", self.ttl), OwnedBy)
            self.clock.advance(self.ttl * 0.5)
            again.heartbeat("w1", self.ttl)
            await self.until_gone(again, "s")
            assert isinstance(await again.acquire("s", "w2", self.ttl), Grant)
            assert isinstance(await again.acquire("r", "w2", self.ttl), OwnedBy)
        finally:
            await again.close()

    @shows("stepflow.L6", "traps.A7")
    async def test_who_is_not_the_owner_releases_nothing(self, grants: Grants) -> None:
        """Contract: NotOwner names the owner; its grant stays in place."""
        granted = await grants.acquire("r", "w1", self.ttl)
        assert await grants.release("r", "w2") == NotOwner("w1")
        assert self.same(await grants.get("r"), granted)

    @shows("stepflow.L6")
    async def test_a_released_run_is_free(self, grants: Grants) -> None:
        """Contract: it is free at once for any worker; releasing a run that is not held is not an error."""
        assert await grants.release("r", "w1") == Released()
        await grants.acquire("r", "w1", self.ttl)
        assert await grants.release("r", "w1") == Released()
        assert await grants.get("r") is None
        assert isinstance(await grants.acquire("r", "w2", self.ttl), Grant)

    @shows("stepflow.L7", "stepflow.C5")
    async def test_all_grants_of_a_worker_are_released_and_nobody_elses(self, grants: Grants) -> None:
        """Contract: one operation releases them and the heartbeat; other workers' grants stay."""
        for run in ("r", "s"):
            await grants.acquire(run, "w1", self.ttl)
        kept = await grants.acquire("t", "w2", self.ttl)
        grants.heartbeat("w1", self.ttl)
        assert sorted(await grants.release_all("w1")) == ["r", "s"]
        assert [await grants.get(run) for run in ("r", "s")] == [None, None]
        assert self.same(await grants.get("t"), kept)
        assert [standing.worker for standing in await grants.workers()] == ["w2"]
        assert list(await grants.release_all("w1")) == []
        assert isinstance(await grants.acquire("r", "w2", self.ttl), Grant)

    @shows("stepflow.L10")
    async def test_workers_are_listed_with_what_they_hold(self, grants: Grants) -> None:
        """Contract: three of one, one of another; released ones count no more; when each was heard of."""
        for run, worker in (("r", "w1"), ("s", "w1"), ("t", "w1"), ("u", "w2")):
            await grants.acquire(run, worker, self.ttl)
        for worker in ("w1", "w2"):
            grants.heartbeat(worker, self.ttl)
        standing = list(await grants.workers())
        assert [(one.worker, one.is_live, one.active) for one in standing] == [("w1", True, 3), ("w2", True, 1)]
        heard = [one.seen_at for one in standing if one.seen_at is not None]
        assert [abs(seen - self.clock.now()) <= self.slack for seen in heard] == [True, True]
        await grants.release("s", "w1")
        assert [standing.active for standing in await grants.workers()] == [2, 1]

    @shows("stepflow.L10")
    async def test_a_holder_that_sent_no_heartbeat_is_listed(self, grants: Grants) -> None:
        """Contract: its grants have to be found, so it is listed with them."""
        await grants.acquire("r", "w1", self.ttl)
        assert [(one.worker, one.active) for one in await grants.workers()] == [("w1", 1)]

    @shows("stepflow.L9", "stepflow.L10", "stepflow.R2")
    async def test_a_worker_without_heartbeat_is_not_live(self, grants: Grants) -> None:
        """Contract: after a lease of silence; one that beats meanwhile stays."""
        for worker in ("w1", "w2"):
            grants.heartbeat(worker, self.ttl)
        await grants.acquire("r", "w1", self.ttl)
        self.clock.advance(self.ttl * 0.6)
        grants.heartbeat("w2", self.ttl)
        self.clock.advance(self.ttl * 0.4)
        await self.until_gone(grants, "r")
        live = [standing.worker for standing in await grants.workers() if standing.is_live]
        assert live == ["w2"]

    @shows("stepflow.L12")
    async def test_of_many_at_once_one_is_granted(self, grants: Grants) -> None:
        """Contract: acquiring is atomic."""
        answers = await asyncio.gather(*(grants.acquire("r", f"w{count}", self.ttl) for count in range(8)))
        (granted,) = [answer for answer in answers if isinstance(answer, Grant)]
        assert {answer.worker for answer in answers if isinstance(answer, OwnedBy)} == {granted.worker}

    @shows("stepflow.L2", "stepflow.L3", "stepflow.L4", "stepflow.L5")
    async def test_many_are_asked_for_at_once(self, grants: Grants) -> None:
        """Contract: an answer for each, as `acquire` gives it: free, one's own and renewed, another's, run out."""
        await grants.acquire("t", "w3", self.ttl)
        self.clock.advance(self.ttl * 0.5)
        first = await grants.acquire("s", "w1", self.ttl)
        assert isinstance(first, Grant)
        kept = await grants.acquire("u", "w2", self.ttl)
        for worker in ("w1", "w2"):
            grants.heartbeat(worker, self.ttl)
        beaten = self.clock.now()
        self.clock.advance(self.ttl * 0.5)
        await self.until_gone(grants, "t")
        now, until = self.clock.now(), self.clock.now() + self.ttl
        answers = dict(await grants.acquire_many(RUNS, "w1", self.ttl))
        assert list(answers) == list(RUNS)
        assert self.same(answers["r"], Grant("r", "w1", now, until))
        assert self.same(answers["s"], Grant("s", "w1", first.acquired_at, until))
        assert self.same(answers["t"], Grant("t", "w1", now, until))
        assert self.same(answers["u"], OwnedBy("w2", beaten + self.ttl))
        assert self.same(await grants.get("u"), kept)
        assert dict(await grants.acquire_many([], "w1", self.ttl)) == {}

    @shows("stepflow.L12")
    async def test_of_many_who_ask_for_many_each_run_goes_to_one(self, grants: Grants) -> None:
        """Contract: each run is decided separately and atomically; the order of asking does not matter."""
        orders = [RUNS[count % 4 :] + RUNS[: count % 4] for count in range(8)]
        asked = [grants.acquire_many(order, worker, self.ttl) for order, worker in zip(orders, WORKERS, strict=True)]
        answers = await asyncio.gather(*asked)
        for run in RUNS:
            (granted,) = [answer[run] for answer in answers if isinstance(answer[run], Grant)]
            assert {x[run].worker for x in answers} == {granted.worker}
            found = await grants.get(run)
            assert found is not None
            assert found.worker == granted.worker

    @shows("stepflow.L11")
    async def test_orphans_are_told_of_or_must_be_looked_for(self, grants: Grants) -> None:
        """Contract: a stream of runs whose grant is gone, or None."""
        stream = grants.orphans()
        if stream is None:
            return
        told, run = asyncio.ensure_future(anext(stream)), "nothing"
        try:
            async with asyncio.timeout(30):
                while not told.done():  # what went before the stream had begun is not told
                    await grants.acquire("r", "w1", self.ttl)
                    await grants.release("r", "w1")
                    await asyncio.sleep(0.01)
                run = await told
                await grants.acquire("s", "w1", self.ttl)
                self.clock.advance(self.ttl)
                await self.until_gone(grants, "s")
                while run != "s":
                    assert run == "r"
                    run = await anext(stream)
        except TimeoutError:
            raise AssertionError(f"the stream does not tell of orphans: it told of {run} last") from None

    async def test_leases_do_not_depend_on_the_wall_clock(self, grants: Grants) -> None:
        """Contract: setting the clock neither ends nor prolongs a grant."""
        await grants.acquire("r", "w1", self.ttl)
        self.clock.set(self.clock.now() + timedelta(days=10))
        assert isinstance(await grants.acquire("r", "w2", self.ttl), OwnedBy)
        self.clock.set(self.clock.now() - timedelta(days=20))
        self.clock.advance(self.ttl)
        await self.until_gone(grants, "r")
        assert isinstance(await grants.acquire("r", "w2", self.ttl), Grant)
