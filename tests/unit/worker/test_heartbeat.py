"""The heartbeat: one thread that keeps a worker's lease, whatever the event loop does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast import App, Run, Signal, step, workflow
from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.memory.store import MemoryStore
from holdfast.adapters.telemetry.logs import logged
from holdfast.errors import StoreUnavailable
from holdfast.ports.leases import Beat
from holdfast.worker.heartbeat import LEAST_PAUSE, Checks, Heartbeat
from holdfast.worker.worker import Worker
from tests.support.faults import FaultyStore

NOW = datetime(2026, 1, 1, tzinfo=UTC)
QUIET = Beat(NOW, has_lapsed=False, orphaned=0)
go = Signal[int]("go")


class ScriptedHeart:
    """Answers, or raises, what it was given, then always `QUIET`."""

    def __init__(self, *answers: Beat | Exception) -> None:
        self.answers = list(answers)
        self.noted: list[str] = []
        self.is_closed = False
        self.freeing: list[int] = []
        self.taking_back: list[bool] = []
        self.beaten = threading.Semaphore(0)

    def beat(self, progress: str = "", *, recovery: str = "", frees: int = 100, takes_back: bool = True) -> Beat:
        self.noted.append(progress)
        self.freeing.append(frees)
        self.taking_back.append(takes_back)
        self.beaten.release()
        answer = self.answers.pop(0) if self.answers else QUIET
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        self.is_closed = True

    def wait(self, count: int) -> None:
        """Until it has beaten so often more."""
        for _ in range(count):
            assert self.beaten.acquire(timeout=60)


def beating(heart: ScriptedHeart, on_beat: Callable[[Beat], None], ttl: float = 0.03) -> Heartbeat:
    interval = timedelta(seconds=ttl / 3)
    made = Heartbeat(
        heart, timedelta(seconds=ttl), lambda: "progress", on_beat, check_interval=interval, tell=logged().tell
    )
    made.start()
    return made


@pytest.mark.spec("openworkflow.O25", "stepflow.R18")
def test_a_beat_that_fails_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    """Promise: an unavailable store is asked again, sooner; a surprise does not end the thread either."""
    seen: list[Beat] = []
    heart = ScriptedHeart(StoreUnavailable("busy"), RuntimeError("surprise"), StoreUnavailable("busy"))
    heartbeat = beating(heart, seen.append)
    heart.wait(6)
    heartbeat.stop()
    assert len(seen) >= 2
    assert heart.noted[:6] == ["progress"] * 6
    assert heart.is_closed
    assert "heartbeat failed, retrying" in caplog.text
    assert "heartbeat broke" in caplog.text


@pytest.mark.spec("openworkflow.O25", "stepflow.R18")
def test_beats_come_every_third_of_the_lease_and_sooner_after_one_that_failed() -> None:
    """Promise: two beats may be lost before the lease runs out, and one that failed is repeated soon."""
    heart = ScriptedHeart(QUIET, StoreUnavailable("busy"))
    ttl = timedelta(seconds=30)
    heartbeat = Heartbeat(heart, ttl, str, lambda _: None, check_interval=None, tell=logged().tell)
    assert heartbeat.begin() == pytest.approx(10, abs=0.5)
    assert heartbeat.beat() == pytest.approx(10, abs=0.5)
    assert heartbeat.beat() <= 0.5


@pytest.mark.spec("stepflow.C1", "stepflow.R18")
def test_a_beat_looks_for_orphans_as_often_as_it_is_told() -> None:
    """Promise: beats come every third of the lease; those that are checks free as many runs as a pass may."""
    heart = ScriptedHeart()
    interval = timedelta(seconds=0.06)
    heartbeat = Heartbeat(
        heart, timedelta(seconds=0.03), str, lambda _: None, check_interval=interval, frees=7, tell=logged().tell
    )
    heartbeat.start()
    heart.wait(40)
    heartbeat.stop()
    checks = heart.freeing.count(7)
    assert heart.freeing.count(0) > checks > 0
    assert heart.freeing[0] == 0


@pytest.mark.spec("stepflow.C1")
def test_a_worker_without_recovery_only_beats() -> None:
    """Promise: turned off, no beat frees anything."""
    heart = ScriptedHeart()
    heartbeat = Heartbeat(heart, timedelta(seconds=0.03), str, lambda _: None, check_interval=None, tell=logged().tell)
    heartbeat.start()
    heart.wait(10)
    heartbeat.stop()
    assert set(heart.freeing) == {0}


def test_orphans_are_freed_in_passes_that_follow_each_other() -> None:
    """Promise: while a beat frees runs, the next comes at once and not after a third of the lease."""
    heart = ScriptedHeart(*[Beat(NOW, has_lapsed=False, orphaned=100)] * 20)
    heartbeat = beating(heart, lambda _: None, ttl=1.5)
    heart.wait(21)  # at every third of the lease this would take 10 s, and the wait below fail
    heartbeat.stop()


@pytest.mark.spec("stepflow.R18")
def test_a_lease_that_runs_out_is_looked_for_just_then() -> None:
    """Promise: a check comes when a lease runs out, not at the next regular check; a beat of its holder puts it off."""
    checks = Checks(5.0, spread=0.2)
    checks.begin(100.0)
    assert checks.at == 105.0
    checks.learn(_expiring(15), 100.0, 0.5, was_check=False)
    assert checks.at == 105.0
    checks.learn(_expiring(2), 101.0, 0.5, was_check=False)
    assert checks.at == pytest.approx(103.0 + LEAST_PAUSE + 0.1)
    checks.learn(_expiring(14), 102.0, 0.5, was_check=False)
    assert checks.at == 105.0
    checks.learn(QUIET, 105.0, 0.5, was_check=True)
    assert checks.at == 110.0


def test_the_workers_of_a_fleet_do_not_look_at_once() -> None:
    """Promise: checks after a lease that ran out are spread, each a little later than the end of the lease."""

    def at(chance: float) -> float:
        checks = Checks(5.0, spread=0.2)
        checks.learn(_expiring(2), 0.0, chance, was_check=False)
        return checks.at

    assert [at(chance) for chance in (0.0, 0.5, 1.0)] == pytest.approx([2.01, 2.11, 2.21])


def test_a_lease_that_has_run_out_is_looked_for_at_once_and_again() -> None:
    """Promise: as long as somebody dead holds runs, checks go on without waiting; who never checks does not begin."""
    checks = Checks(5.0, spread=0.2)
    checks.learn(_expiring(-3), 0.0, 0.0, was_check=True)
    assert checks.at == pytest.approx(LEAST_PAUSE)
    checks.put_off(0.5)
    assert checks.at == 0.5
    never = Checks(None, spread=0.2)
    never.begin(0.0)
    never.learn(_expiring(-3), 0.0, 0.0, was_check=False)
    assert never.at == float("inf")


def _expiring(left: float) -> Beat:
    return Beat(NOW, has_lapsed=False, orphaned=0, next_expiry=NOW + timedelta(seconds=left))


def test_a_worker_that_begins_looks_at_once_after_the_dead() -> None:
    """Promise: runs whose lease ran out before a worker began are not left until its first regular check."""
    heart = ScriptedHeart(_expiring(0))
    heartbeat = beating(heart, lambda _: None, ttl=600)
    heart.wait(2)
    heartbeat.stop()
    assert heart.freeing[:2] == [0, 10]


class Timed(Heartbeat):
    """Beats when it is told, at a time that the test moves."""

    now = 0.0

    def time(self) -> float:
        return self.now


def test_only_who_reaches_the_store_tells_anybody_else_that_it_lives() -> None:
    """Promise (N5): the grants of a worker without a store run out like its lease, so that others can go on."""
    told: list[str] = []
    heart = ScriptedHeart(StoreUnavailable("cut off"), RuntimeError("surprise"))
    heartbeat = Timed(
        heart, timedelta(seconds=15), str, lambda _: None, also=lambda: told.append("alive"), tell=logged().tell
    )
    heartbeat.begin()
    for _ in range(2):
        heartbeat.beat()
    assert told == []
    heartbeat.beat()
    assert told == ["alive"]


def test_a_worker_that_was_silent_for_a_lease_knows_it() -> None:
    """Promise: whoever was not heard for its whole lease has lapsed, though others wrote it back as an owner and the
    store counts it among the living."""
    seen: list[Beat] = []
    heartbeat = Timed(ScriptedHeart(), timedelta(seconds=15), str, seen.append, tell=logged().tell)
    heartbeat.begin()
    for silence in (0, 14, 15, 5):
        heartbeat.now += silence
        heartbeat.beat()
    assert [beat.has_lapsed for beat in seen] == [False, False, True, False]


def test_a_heartbeat_that_never_began_can_be_stopped() -> None:
    """Promise: stopping is safe at any time."""
    Heartbeat(ScriptedHeart(), timedelta(seconds=1), str, lambda _: None, tell=logged().tell).stop()


@workflow
async def waits() -> int:
    return await go.wait()


async def test_a_lapsed_lease_makes_the_worker_look_after_its_runs(caplog: pytest.LogCaptureFixture) -> None:
    """Promise: a beat that comes too late is said in the log, and what others took is dropped without being told."""
    store = MemoryStore()
    entered, leave = asyncio.Event(), asyncio.Event()

    @step
    async def slow() -> str:
        entered.set()
        await leave.wait()
        return "done"

    @workflow
    async def work() -> str:
        return await slow()

    app = App(workflows=[work], store=store)
    async with app.worker(poll="7s", grace="1s") as worker:
        run: Run[str] = await app.start(work())
        await entered.wait()
        await store.take(run.id, instance="another", steal=True)
        worker._beaten(Beat(NOW, has_lapsed=True, orphaned=0))
        await _until(lambda: run.id not in worker.engine.sessions)
    assert "its lease had expired" in caplog.text
    assert "taken over by another worker" in caplog.text


async def test_orphans_wake_the_claim_loop(caplog: pytest.LogCaptureFixture) -> None:
    """Promise: runs that a beat freed are claimed without waiting for the poll."""
    caplog.set_level("INFO")
    app = App(workflows=[waits], store=MemoryStore())
    async with app.worker(poll="300s", ttl="900s") as worker:
        worker.work_hinted.clear()
        worker._beaten(Beat(NOW, has_lapsed=False, orphaned=3))
        await asyncio.wait_for(worker.work_hinted.wait(), 60)
    assert "3 run(s) of workers that disappeared are free again" in caplog.text


async def test_a_blocked_loop_keeps_its_lease(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise: the lease lives while the loop stands still: the heartbeat has a thread of its own.

    Only the beats move the clock, so that a machine that pauses does not use up the lease.
    """
    clock = VirtualClock(NOW)
    store = MemoryStore(clock)
    beaten = threading.Semaphore(0)
    faulty = FaultyStore(store)
    original = faulty.mode_of

    def counted(name: str) -> Any:
        if name == "beat":
            clock.advance(timedelta(milliseconds=100))
            beaten.release()
        return original(name)

    class Counting(Heartbeat):
        def time(self) -> float:
            return clock.now().timestamp()

    faulty.mode_of = counted  # type: ignore[method-assign]
    monkeypatch.setattr(Worker, "heartbeat", Counting)

    @step
    async def blocks() -> str:
        for _ in range(8):  # together longer than the lease
            assert beaten.acquire(timeout=60)
        return "mine"

    @workflow
    async def work() -> str:
        return await blocks()

    app = App(workflows=[work], store=faulty.store)
    async with app.worker(poll="100ms", ttl="300ms"):
        run = await app.start(work())
        assert await run.result("60s") == "mine"
        assert (await run.view()).epoch == 1
    assert "its lease had expired" not in caplog.text


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 nobody tells of a dropped session
            await asyncio.sleep(0.002)


class Measured(Heartbeat):
    """A heartbeat whose clocks the test sets."""

    now = used = 0.0

    def time(self) -> float:
        return self.now

    def processor(self) -> float:
        return self.used


@pytest.mark.parametrize(
    ("gap", "used", "takes_back"),
    [(30.0, 0.1, True), (30.0, 14.0, True), (30.0, 16.0, False), (30.0, 60.0, False), (4.0, 4.0, True)],
)
def test_a_process_that_was_busy_all_the_while_does_not_take_its_death_back(
    gap: float, used: float, takes_back: bool
) -> None:
    """Promise: a worker that was stopped, or could not reach the store, had not died. One that was silent for longer
    than its lease and used the processor for more than half of it was kept from beating by what it runs."""
    heart = ScriptedHeart()
    heartbeat = Measured(heart, timedelta(seconds=15), str, lambda _: None, tell=logged().tell)
    heartbeat.begin()
    heartbeat.beat()
    heartbeat.now, heartbeat.used = gap, used
    heartbeat.beat()
    assert heart.taking_back == [True, takes_back]
    heartbeat.now += 5
    heartbeat.beat()
    assert heart.taking_back[-1]
