"""Operators and neighbours of a run: pause and kill beside a live holder, messages between runs, what the log says."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import pytest

from holdfast import (
    Retry,
    Run,
    RunCancelled,
    RunFailed,
    RunVar,
    Signal,
    Status,
    Topic,
    continue_as,
    current,
    sleep,
    start,
    step,
    workflow,
)
from holdfast.client.client_run import ClientRun
from holdfast.errors import NotAllowedHere, RunFinished, RunNotFound, StoreUnavailable
from tests.support.faults import FaultyStore
from tests.support.world import World, crash, events, forget_programs, types

go = Signal[str]("go")
news = Topic[str]("news")
shown = RunVar[str]("shown")
LARGE = "x" * 300_000


class Gate:
    """A step body that says when it runs and waits to be let go."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.leave = asyncio.Event()
        self.runs = 0

    async def pass_through(self) -> None:
        self.runs += 1
        self.entered.set()
        await self.leave.wait()


@workflow
async def listens() -> list[str]:
    return [await go.wait(timeout="1h", default="none"), await go.wait(timeout="0s", default="none")]


async def test_a_pause_waits_for_the_body_and_counts_nothing_unstarted(world: World) -> None:
    """Promise: a body that runs ends and is journaled; the step after it keeps its first attempt for the resume."""
    gate, attempts = Gate(), list[int]()

    @step
    async def first() -> str:
        await gate.pass_through()
        return "first"

    @step
    async def second() -> str:
        attempts.append(current().attempt)
        return "second"

    @workflow
    async def work() -> list[str]:
        return [await first(), await second()]

    async with world.serving(work) as app:
        run = await app.start(work())
        await world.until_set(gate.entered)
        await run.pause("look first")
        assert await run.status() is Status.RUNNING
        gate.leave.set()
        await world.until_status(run, Status.PAUSED)
        assert "look first" in (await run.view()).waiting
        assert attempts == []
        await run.resume()
        assert await run.result("60s") == ["first", "second"]
        assert attempts == [1]
        assert gate.runs == 1
        with pytest.raises(RunFinished, match="resume was refused"):
            await run.resume()
        with pytest.raises(RunFinished, match="pause was refused"):
            await run.pause()


async def test_a_kill_beside_a_live_holder(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Promise: the run is over at once; the holder finds itself fenced, drops the run and says so; its body's outcome
    is not journaled."""
    gate = Gate()

    @step
    async def work_on() -> None:
        await gate.pass_through()

    @workflow
    async def work() -> None:
        await work_on()

    app = world.app(work)
    async with world.worker(app) as worker:
        run = await app.start(work())
        await world.until_set(gate.entered)
        await run.kill("enough")
        assert await run.status() is Status.CANCELLED
        gate.leave.set()
        await world.until(lambda: run.id not in worker.engine.sessions)
        dropped = [x for x in caplog.records if "dropped" in x.getMessage()]
        assert [vars(x)["fact"] for x in dropped] == ["fenced"]
    assert (await types(run))[-1] == "cancelled"
    assert "done" not in await types(run)
    await run.kill()  # again: nothing happens


@workflow
async def listens_once() -> str:
    return await go.wait()


async def test_operators_on_what_is_not_there_or_over(world: World) -> None:
    """Promise: a run that ended refuses kill; one that never was is not found, whatever the verb."""
    async with world.serving(listens_once) as app:
        run = await app.start(listens_once())
        await run.signal(go, "done")
        assert await run.result("60s") == "done"
        with pytest.raises(RunFinished, match="has completed: kill was refused"):
            await run.kill()
        ghost: Run[Any] = ClientRun(await app.client(), "nobody", None)
        for verb in (ghost.kill, ghost.pause, ghost.resume, ghost.cancel, ghost.status, ghost.retry):
            with pytest.raises(RunNotFound):
                await verb()
        with pytest.raises(RunNotFound):
            await ghost.get(shown)
        with pytest.raises(NotAllowedHere, match="is a Topic"):
            await run.signal(news, "x")


async def test_an_operator_cut_off_in_the_middle_blocks_nobody(still: World) -> None:
    """Promise: an operator's lease has no heart: if its write fails, the next heartbeat of a worker frees the run."""
    faulty = FaultyStore(still.store)
    app = still.app(listens_once)
    operator = type(app)(workflows=[listens_once], store=faulty.store)
    async with still.worker(app) as worker:
        run = await app.start(listens_once())
        await still.until_parked(run)
        faulty.fail("commit", 1)
        with pytest.raises(StoreUnavailable):
            await (await operator.get(run.id)).pause()
        await still.beat(worker)
        await run.signal(go, "on")
        await still.nudge()
        assert await run.result("60s") == "on"


async def test_messages_between_runs_are_sent_exactly_once(still: World) -> None:
    """Promise: a signal and a publication go out with their turn; neither a replay nor a crash after it sends again."""
    crashed = Gate()

    @step
    async def then() -> None:
        if crashed.runs == 0:
            await crashed.pass_through()

    @workflow
    async def speaks() -> None:
        _ = go.send("listener", LARGE)
        news.publish(LARGE)
        await then()

    @workflow
    async def hears() -> int:
        return len(await news.wait())

    app = still.app(speaks, listens, hears)
    async with still.worker(app):
        listener = await app.start(listens(), id="listener")
        hearer = await app.start(hears(), id="hearer")
        await still.until_parked(listener)
        await still.until_parked(hearer)
    async with still.worker(app, ttl="10s") as worker:
        run = await app.start(speaks())
        await still.until_set(crashed.entered)
        await crash(worker)
    still.clock.advance(60)
    async with still.worker(app) as other:
        await still.beat(other)
        await run.result("60s")
        assert await hearer.result("60s") == len(LARGE)
        first, second = await listener.result("60s")
        assert (len(first), second) == (len(LARGE), "none")
    assert (await types(listener)).count("signal") == 1


async def test_the_verbs_of_a_child_that_belong_to_clients(world: World) -> None:
    """Promise: in a workflow a child can be awaited, signalled and cancelled; the rest is refused, by name."""

    @workflow
    async def parent() -> list[str]:
        child = start(listens_once(), id="child")
        said: list[str] = []
        for name in ("wait", "status", "view", "kill", "delete", "pause", "resume", "retry"):
            try:
                await getattr(child, name)()
            except NotAllowedHere as error:
                said.append(str(error).partition(" ")[0])
        calls: list[Coroutine[Any, Any, Any]] = [child.get(shown), child.result("60s")]
        for call in calls:
            try:
                await call
            except NotAllowedHere as error:
                said.append(str(error).partition(" ")[0])
        try:
            child.follow()
        except NotAllowedHere as error:
            said.append(str(error).partition(" ")[0])
        await child.signal(go, "from the parent")
        return [*said, await child.result()]

    async with world.serving(parent, listens_once) as app:
        said = await (await app.start(parent())).result("60s")
    refused = ["wait", "status", "view", "kill", "delete", "pause", "resume", "retry", "get"]
    assert said == [*(f"run.{name}()" for name in refused), "inside", "run.follow()", "from the parent"]


async def test_a_parent_cancels_its_child(world: World) -> None:
    """Promise: `child.cancel` goes out with the turn, and the parent sees how the child ended."""

    @workflow
    async def parent() -> str:
        child = start(listens_once(), id="child")
        await child.cancel("not needed")
        try:
            return await child.result()
        except RunCancelled as error:
            return str(error)

    async with world.serving(parent, listens_once) as app:
        said = await (await app.start(parent())).result("60s")
        assert "not needed" in said
        assert await (await app.get("child")).status() is Status.CANCELLED


async def test_a_large_shown_value_travels_as_a_blob(world: World) -> None:
    """Promise: a RunVar of any size is read whole, also after the run was replayed and has ended."""

    @workflow
    async def work() -> int:
        shown.set(LARGE)
        await go.wait()
        return len(shown.get("") + shown.get("x"))

    app = world.app(work)
    async with world.worker(app) as worker:
        run = await app.start(work())
        await world.until_parked(run)
        assert await run.get(shown) == LARGE
        stored = await world.store.exposed(run.id, shown.name)
        assert stored is not None
        assert (stored[0], len(stored[1])) == (b"null", 64)
        forget_programs(worker)
        await run.signal(go, "x")
        assert await run.result("60s") == 2 * len(LARGE)
    assert await run.get(shown) == LARGE


async def test_idempotency_keys(world: World) -> None:
    """Promise: one key for all attempts of a step, another for each step, and a new one after `continue_as`."""
    keys: list[str] = []

    @step(retry=Retry(3, first="1ms"))
    async def charge() -> None:
        keys.append(current().idempotency_key)
        if current().attempt == 1:
            raise OSError("again")

    @workflow
    async def work(left: int) -> None:
        await charge()
        await charge()
        if left:
            continue_as(work(left - 1))

    async with world.serving(work) as app:
        await (await app.start(work(1))).result("60s")
    assert len(keys) == 8
    assert keys[0::2] == keys[1::2], "stable over attempts"
    assert len(set(keys)) == 4, "different by step, and by life of the run"


async def test_one_line_for_each_thing_that_happens(still: World, caplog: pytest.LogCaptureFixture) -> None:
    """Promise: claimed, step started, step ended, parked, released, taken over, finished: one line each, each with
    run, workflow, worker and epoch."""
    gate = Gate()

    @step
    async def look() -> None:
        await gate.pass_through()

    @workflow
    async def work() -> None:
        await sleep("1h")
        await look()

    caplog.set_level(logging.INFO, logger="holdfast.worker")
    app = still.app(work)
    async with still.worker(app, id="one"):
        run = await app.start(work(), id="r")
        await still.until_parked(run)
    assert told(caplog, "r") == [("claimed", "one", 1), ("parked", "one", 1)]
    caplog.clear()
    async with still.worker(app, id="two", ttl="10s") as worker:
        await still.advance("1h")
        await still.until_set(gate.entered)
        await crash(worker)
    assert told(caplog, "r")[:2] == [("claimed", "two", 2), ("step started", "two", 2)]
    caplog.clear()
    still.clock.advance(60)
    gate.leave.set()
    async with still.worker(app, id="three") as other:
        await still.beat(other)
        await run.result("60s")
    assert [event for event, _, _ in told(caplog, "r")] == ["taken over", "step started", "step ended", "finished"]
    assert {(worker, epoch) for _, worker, epoch in told(caplog, "r")} == {("three", 3)}


async def test_what_a_leaving_worker_says(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Promise: a run given back because the worker leaves is `released`; a failed one is `finished`, as an error."""
    gate = Gate()

    @step
    async def look() -> None:
        await gate.pass_through()

    @workflow
    async def work() -> None:
        await look()
        await look()
        raise ValueError("why")

    caplog.set_level(logging.INFO, logger="holdfast.worker")
    app = world.app(work)
    async with world.worker(app) as worker:
        run = await app.start(work(), id="r")
        await world.until_set(gate.entered)
        stopping = asyncio.create_task(worker.stop())
        await world.until(lambda: worker.engine.is_draining)
        gate.leave.set()
        await stopping
    assert [event for event, _, _ in told(caplog, "r")] == ["claimed", "step started", "step ended", "released"]
    async with world.worker(app):
        with pytest.raises(RunFailed, match="why"):
            await (await app.get("r", work)).result("60s")
    [finished] = [x for x in caplog.records if vars(x).get("fact") == "finished"]
    assert (finished.levelno, "ValueError: why" in finished.getMessage()) == (logging.ERROR, True)
    assert [x.type for x in await events(run)].count("done") == 2


def told(caplog: pytest.LogCaptureFixture, run: str) -> list[tuple[str, str, int]]:
    """What the log says of a run: event, worker, epoch."""
    lines = [vars(x) for x in caplog.records if vars(x).get("run") == run and x.name == "holdfast.worker"]
    assert all(line["workflow"] == "work" for line in lines)
    return [(line["fact"], line["worker"], line["epoch"]) for line in lines]
