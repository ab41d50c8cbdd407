"""One run ends its workers, and the others do not pay for it."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest

from holdfast import Run, current, heartbeat, step, workflow
from holdfast.ports.journal import Fenced
from tests.support.world import World, crash


class Ward:
    """Healthy runs that wait for a word, and how many of their bodies were entered."""

    def __init__(self, still: World) -> None:
        self.still = still
        self.entered: list[str] = []
        self.leave = asyncio.Event()

        @step
        async def waits(name: str) -> str:
            self.entered.append(name)
            await self.leave.wait()
            return name

        @workflow
        async def healthy(name: str) -> str:
            return await waits(name)

        self.healthy = healthy
        self.app = still.app(healthy)

    async def start(self, count: int) -> list[Run[str]]:
        """So many runs."""
        return [await self.app.start(self.healthy(f"h{number}"), id=f"h{number}") for number in range(count)]

    async def lose_worker(self, entered: int) -> None:
        """A worker takes them on, and dies."""
        self.entered.clear()
        async with self.still.worker(self.app, ttl="900s", poll="400s") as worker:
            await self.still.beat(worker)
            await self.still.until(lambda: len(self.entered) == entered)
            await crash(worker)
        self.still.clock.advance(901)


@pytest.mark.spec("traps.A8")
async def test_suspects_are_tried_one_after_the_other_without_waiting(still: World) -> None:
    """Promise: a worker that died twice with ten runs leaves ten suspects. They are begun one at a time, each as soon
    as the one before it made progress, however rarely the worker looks by itself; none is quarantined."""
    ward = Ward(still)
    runs = await ward.start(10)
    await ward.lose_worker(10)
    await ward.lose_worker(10)
    ward.entered.clear()
    async with still.worker(ward.app, ttl="900s", poll="400s") as worker:
        await still.beat(worker)
        await still.until(lambda: len(ward.entered) == 1)
        assert worker.engine.busy == 1
        assert "(suspect: its worker died once while it ran, among other suspects)" in (await runs[9].view()).waiting
        ward.leave.set()
        assert [await run.result("60s") for run in runs] == [f"h{number}" for number in range(10)]
        assert len(ward.entered) == 10


async def test_a_suspect_that_lives_through_its_trial_makes_room(still: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: a long step is no reason to keep the others waiting: after its trial the next suspect is begun."""
    monkeypatch.setattr("holdfast.engine.suspects.trial", _no_time)
    ward = Ward(still)
    runs = await ward.start(3)
    await ward.lose_worker(3)
    await ward.lose_worker(3)
    ward.entered.clear()
    async with still.worker(ward.app, ttl="900s", poll="400s") as worker:
        await still.beat(worker)
        await still.until(lambda: len(ward.entered) == 3)
        await still.until(lambda: not worker.engine.suspects.trials)
        assert [(await still.row(run)).deaths for run in runs] == [0, 0, 0]
        assert [(await still.row(run)).claims for run in runs] == [2, 2, 2]
        ward.leave.set()
        assert await runs[0].result("60s") == "h0"


async def test_a_heartbeat_clears_a_suspect_only_if_it_moved(still: World) -> None:
    """Promise: a step that says what it had said when its worker died has not moved; one that is further has."""
    said: list[int] = []
    goes_on = asyncio.Event()

    @step
    async def long() -> None:
        heartbeat(7)
        said.append(current().attempt)
        await goes_on.wait()
        heartbeat(8)
        said.append(8)
        await asyncio.Event().wait()

    @workflow
    async def work() -> None:
        await long()

    app = still.app(work)
    run = await app.start(work())
    for count in (1, 2):
        async with still.worker(app, ttl="15s") as worker:
            await still.beat(worker)
            await still.until(lambda: len(said) == count)  # noqa: B023 awaited in this turn of the loop
            await still.beat(worker)  # what it said is known
            await crash(worker)
        still.clock.advance(16)
    async with still.worker(app, ttl="15s") as worker:
        await still.beat(worker)
        await still.until(lambda: len(said) == 3)
        await worker.engine.check_held(worker.options.instance)
        assert (await still.row(run)).deaths == 1
        assert worker.engine.suspects.trials
        goes_on.set()
        await still.until(lambda: said[-1] == 8)
        await worker.engine.check_held(worker.options.instance)
        await still.until(lambda: not worker.engine.suspects.trials)
        assert (await still.row(run)).deaths == 0
        await run.kill()


async def test_a_quarantine_is_said_once_it_is_durable(
    still: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise: a pause that the store refused did not happen, and nobody reads of it."""
    ward = Ward(still)
    (run,) = await ward.start(1)
    for _ in range(4):
        await ward.lose_worker(1)
    async with still.worker(ward.app, ttl="900s", poll="400s") as worker:
        asked = asyncio.Event()

        def refuse(_commit: object, answered: Callable[[Fenced], None]) -> None:
            asked.set()
            answered(Fenced(9, 9))

        monkeypatch.setattr(worker.engine.committer, "submit", refuse)
        await still.beat(worker)
        await still.until(asked.is_set)
        assert "quarantined" not in caplog.text
        await crash(worker)
    still.clock.advance(901)
    async with still.worker(ward.app, ttl="900s", poll="400s") as worker:
        await still.beat(worker)
        await still.until_status(run, "paused")
        await still.until(lambda: f"run {run.id}: paused (quarantined): its worker died" in caplog.text)


def _no_time(claims: int) -> timedelta:
    return timedelta(0)
