"""Steps beside each other: concurrency, failures, timeouts, replay."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Retry, RunFailed, Signal, StepFailed, current, each, sleep, step, workflow
from tests.support.hang import hang
from tests.support.world import PATIENCE, World, crash, events, forget_programs

go = Signal[int]("go")


@pytest.mark.spec("openworkflow.O57")
async def test_parallel_steps_run_concurrently_and_are_journaled_one_by_one(world: World) -> None:
    """Promise: `gather` of steps runs them at once; each outcome is journaled when it comes."""
    inside: list[int] = []
    everybody = asyncio.Event()

    @step
    async def meet(number: int) -> int:
        inside.append(number)
        if len(inside) == 3:
            everybody.set()
        await everybody.wait()
        return number * 10

    @workflow
    async def work() -> list[int]:
        return list(await asyncio.gather(meet(1), meet(2), meet(3)))

    async with world.serving(work) as app:
        run = await app.start(work())
        assert await run.result("60s") == [10, 20, 30]
    done = [event.data["key"] for event in await events(run) if event.type == "done"]
    assert sorted(done) == ["meet", "meet:1", "meet:2"]


@pytest.mark.spec("openworkflow.O58", "vectorbea.V5", "vectorbea.V14", "openworkflow.O41", "openworkflow.O57")
async def test_after_a_crash_only_what_was_in_flight_runs_again(still: World) -> None:
    """Promise: completed branches return their stored outcome, those in flight are executed again."""
    seen: list[str] = []
    hang = True

    @step
    async def branch(name: str) -> str:
        seen.append(f"{name} {current().attempt}")
        if hang and name == "slow":
            await asyncio.Event().wait()
        return name

    @workflow
    async def work() -> list[str]:
        return list(await asyncio.gather(branch("a"), branch("slow"), branch("c")))

    app = still.app(work)
    async with still.worker(app, ttl="15s") as worker:
        run = await app.start(work())

        async def two_done() -> bool:
            return [doing.name for doing in (await run.view()).doing.now] == ["branch:1"]

        await still.until(two_done)
        await crash(worker)
    still.clock.advance(16)
    hang = False
    async with still.worker(app) as worker:
        await still.beat(worker)
        assert await run.result("60s") == ["a", "slow", "c"]
    assert seen == ["a 1", "slow 1", "c 1", "slow 2"]


@pytest.mark.spec("openworkflow.O57b", "traps.B4")
async def test_a_failing_branch_does_not_throw_away_its_siblings(world: World) -> None:
    """Promise: a retry of one branch leaves the others alone: each runs exactly once, also while one waits, and
    one that is at work when another fails comes to its end."""
    seen: list[str] = []
    failed_once = asyncio.Event()

    @step(retry=Retry(3, first="5ms"))
    async def branch(name: str) -> str:
        seen.append(name)
        if name == "shaky" and seen.count("shaky") == 2:
            failed_once.set()
        if name == "shaky" and seen.count("shaky") < 3:
            raise ConnectionError
        if name == "c":
            await failed_once.wait()
        return name

    @workflow
    async def work() -> list[str]:
        return list(await asyncio.gather(branch("a"), branch("shaky"), branch("c")))

    async with world.serving(work) as app:
        assert await (await app.start(work())).result("60s") == ["a", "shaky", "c"]
    assert sorted(seen) == ["a", "c", "shaky", "shaky", "shaky"]


async def test_a_retry_comes_due_while_another_body_runs(world: World) -> None:
    """Promise: time passes for a run whose bodies are busy: retries of its other steps do not wait for them."""
    leave = asyncio.Event()

    @step(retry=Retry(3, first="5ms"))
    async def shaky() -> int:
        if current().attempt < 3:
            raise ConnectionError
        leave.set()
        return current().attempt

    @step
    async def slow() -> int:
        await leave.wait()
        return 1

    @workflow
    async def work() -> list[int]:
        return list(await asyncio.gather(slow(), shaky()))

    async with world.serving(work) as app:
        assert await (await app.start(work())).result("60s") == [1, 3]


async def test_a_timer_comes_due_while_a_body_runs(still: World) -> None:
    """Promise: `asyncio.timeout` around a step cuts it, and a sleep beside a step ends, though the body runs on."""
    stopped: list[int] = []
    entered = asyncio.Event()

    @step
    async def slow() -> None:
        await hang(entered, lambda: stopped.append(1))

    @workflow
    async def work() -> list[str]:
        found: list[str] = []
        try:
            async with asyncio.timeout(0.03):
                await slow()
        except TimeoutError:
            found.append("timeout")
        task = asyncio.create_task(slow())
        await sleep("30ms")
        found.append("slept")
        task.cancel()
        await asyncio.wait([task])
        return found

    async with still.serving(work) as app:
        run = await app.start(work())
        for _ in range(2):
            await asyncio.wait_for(entered.wait(), PATIENCE)
            entered.clear()
            await still.advance("30ms")
        assert await run.result("60s") == ["timeout", "slept"]
    assert stopped == [1, 1]


async def test_a_message_is_taken_while_a_body_runs(world: World) -> None:
    """Promise: a signal reaches a branch that waits for it, though another branch's body is busy."""
    leave = asyncio.Event()

    @step
    async def slow() -> None:
        await leave.wait()

    @step
    async def free(number: int) -> int:
        leave.set()
        return number

    @workflow
    async def work() -> int:
        async def listen() -> int:
            return await free(await go.wait())

        return (await asyncio.gather(slow(), listen()))[1]

    async with world.serving(work) as app:
        run = await app.start(work())
        await world.until_waiting(run, "signal go")
        await run.signal(go, 6)
        assert await run.result("60s") == 6


@pytest.mark.spec("traps.B4")
async def test_what_is_in_flight_at_the_end_is_stopped_and_named(world: World) -> None:
    """Promise: a failure is delivered at once; bodies left running are asked to stop when the end is durable."""
    stopped: list[str] = []
    entered = asyncio.Event()

    @step
    async def slow() -> None:
        await hang(entered, lambda: stopped.append("slow"))

    @step(retry=Retry.none)
    async def fails() -> None:
        await entered.wait()
        raise ValueError("no")

    @workflow
    async def work() -> None:
        await asyncio.gather(slow(), fails())

    async with world.serving(work) as app:
        run = await app.start(work())
        with pytest.raises(RunFailed, match="no"):
            await run.result("60s")
    assert stopped == ["slow"]


async def test_an_outcome_that_comes_after_the_end_is_nobodys(world: World) -> None:
    """Promise: the end waits for no sibling. One that finishes although it was asked to stop is named by the end, and
    what it says changes nothing."""
    entered, over = asyncio.Event(), asyncio.Event()

    @step
    async def stubborn() -> str:
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "took effect"
        finally:
            over.set()
        return ""

    @step(retry=Retry.none)
    async def fails() -> None:
        await entered.wait()
        raise ValueError("no")

    @workflow
    async def work() -> None:
        await asyncio.gather(stubborn(), fails())

    async with world.serving(work) as app:
        run = await app.start(work())
        await run.wait("60s")
        await world.until_set(over)
    *others, last = await events(run)
    assert (last.type, last.data["left"]) == ("failed", ["stubborn"])
    assert not [event for event in others if event.type == "done"]


async def test_a_body_stopped_before_its_first_line_holds_nothing_up(world: World) -> None:
    """Promise: a step that is no longer wanted the moment it is started costs no waiting."""
    begun: list[int] = []

    @step
    async def first() -> None: ...

    @step(retry=Retry.none)
    async def fails() -> None:
        raise ValueError("no")

    @step
    async def late() -> None:
        begun.append(1)

    @workflow
    async def work() -> None:
        async def branch() -> None:
            await first()
            await late()

        await asyncio.gather(branch(), fails())

    async with world.serving(work) as app:
        for _ in range(5):
            with pytest.raises(RunFailed):
                await (await app.start(work())).result("60s")


async def test_each_bounds_its_fan_out(world: World) -> None:
    """Promise: at most `limit` at a time; results in the order of the items; every item once."""
    inside = most = 0
    calls: list[int] = []

    @step
    async def square(number: int) -> int:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        calls.append(number)
        await asyncio.sleep(0)
        inside -= 1
        return number * number

    @workflow
    async def work() -> list[int]:
        return await each(square, range(30), limit=4)

    async with world.serving(work) as app:
        assert await (await app.start(work())).result("60s") == [n * n for n in range(30)]
    assert most <= 4
    assert sorted(calls) == list(range(30))


@pytest.mark.spec("traps.B4")
async def test_steps_that_end_together_are_one_turn(world: World) -> None:
    """Promise: what ends at the same moment is committed together, by `each` and by `gather`, also when some fail."""

    @step(retry=Retry.none)
    async def square(number: int) -> int:
        if number == 7:
            raise ValueError("unlucky")
        return number * number

    @workflow
    async def some(count: int) -> int:
        return sum(await each(square, [0] * count, limit=50))

    @workflow
    async def all_of(count: int) -> int:
        squares = await asyncio.gather(*(square(number) for number in range(count)), return_exceptions=True)
        return sum(isinstance(one, int) for one in squares)

    async with world.serving(some, all_of) as app:
        run = await app.start(some(200))
        assert await run.result("60s") == 0
        assert (await events(run))[-1].ordinal <= 4 + 2
        run = await app.start(all_of(50))
        assert await run.result("60s") == 49
        assert (await events(run))[-1].ordinal <= 4
        assert [x.type for x in await events(run)].count("done") == 49, "and the results of the others are kept"


async def test_each_stops_at_the_first_failure(world: World) -> None:
    """Promise: the first failure is raised as itself, the rest is cancelled, none begins afterwards."""
    calls: list[int] = []

    @step(retry=Retry.none)
    async def maybe(number: int) -> int:
        calls.append(number)
        if number == 3:
            raise ValueError("three")
        return number

    @workflow
    async def work() -> str:
        try:
            await each(maybe, range(100), limit=2)
        except StepFailed as failed:
            return failed.message
        return ""

    async with world.serving(work) as app:
        assert await (await app.start(work())).result("60s") == "three"
    assert len(calls) < 10


@pytest.mark.spec("vectorbea.V12", "traps.B7")
async def test_branches_replay_in_the_recorded_order(world: World) -> None:
    """Promise: the order of completions is the journal's: a cold replay takes the same branches."""
    order: list[list[str]] = []

    @step
    async def named(name: str) -> str:
        for _ in range({"a": 3, "b": 1, "c": 2}[name]):
            await asyncio.sleep(0.002)
        return name

    @workflow
    async def work() -> list[str]:
        finished: list[str] = []

        async def branch(name: str) -> None:
            await named(name)
            finished.append(name)

        async with asyncio.TaskGroup() as group:
            for name in ("a", "b", "c"):
                group.create_task(branch(name))
        order.append(list(finished))
        await go.wait()
        return finished

    app = world.app(work)
    async with world.worker(app) as worker:
        run = await app.start(work())
        await world.until_parked(run)
        forget_programs(worker)
        await run.signal(go, 1)
        assert await run.result("60s") == order[0]
    assert order[0] == order[1]
