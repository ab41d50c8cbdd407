"""The kinds of state of a machine under an app: scripts, timers, polls, batches, streams and splits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest

from holdfast import (
    Again,
    App,
    Breaker,
    ItemOutcome,
    Join,
    Machine,
    Permanent,
    Retry,
    RunFailed,
    Signal,
    Status,
    Window,
    current,
    resource,
    sleep,
    step,
    workflow,
)
from holdfast.testing import Sim
from holdfast.testing.machines import RecordingObserver
from tests.support.world import World, crash, events, forget_programs
from tests.unit.authoring.machine.stage import ONCE, A, B, C, End

go = Signal[int]("go")


class Boom(Exception):
    """What goes wrong."""


@step(retry=ONCE)
async def book(what: str) -> str:
    LEDGER.append(f"book {what}")
    return what


@book.undo
async def unbook(result: str, what: str) -> None:
    LEDGER.append(f"unbook {what}")


LEDGER: list[str] = []


@workflow
async def child(n: int) -> int:
    return n * 2


@pytest.mark.spec("cano.F3")
async def test_a_script_state_uses_the_durable_verbs_and_replays(still: World) -> None:
    """Promise: signals, sleeps, steps and children inside a state; a replay repeats it; its steps are undone too."""
    LEDGER.clear()
    entered: list[str] = []
    machine = Machine[A, End]("talk", retry=ONCE)

    @machine.state
    async def a(s: A) -> B:
        return B(s.n)

    @machine.script
    async def b(s: B) -> C:
        entered.append("B")
        await book(f"shelf {s.n}")
        await sleep("1h")
        answer = await go.wait()
        return C(await child(answer))

    @machine.state
    async def c(s: C) -> End:
        if s.n == 0:
            raise Boom
        return End(s.n)

    app = still.app(machine, child)
    async with still.worker(app) as worker:
        run = await app.start(machine(A(3)), id="talk")
        broken = await app.start(machine(A(4)), id="broken")
        for one in (run, broken):
            await still.until_waiting(one, "sleeping")
            await still.until_parked(one)
        forget_programs(worker)
        await still.advance("1h")
        await run.signal(go, 21)
        await broken.signal(go, 0)
        assert await run.result("30s") == End(42)
        assert await broken.wait("30s") is Status.FAILED
    assert len(entered) > 2, "the second program replayed the script"
    assert sorted(LEDGER) == ["book shelf 3", "book shelf 4", "unbook shelf 4"]
    entries = [event.data for event in await events(run) if event.type == "entered"]
    assert entries == [{"key": "B", "state": "B"}, {"key": "C", "state": "C"}]


@pytest.mark.spec("cano.T7", "cano.T8")
async def test_timers_and_polls_park_the_run(still: World) -> None:
    """Promise: no worker is held while they wait; a replay keeps the time that was fixed first."""
    asked: list[int] = []
    machine = Machine[A, End]("waits", retry=ONCE)

    @machine.timer(lambda s: f"{s.n}h")
    async def a(s: A) -> B:
        return B(s.n)

    @machine.poll(errors=1)
    async def b(s: B) -> Again | End:
        asked.append(1)
        if len(asked) == 2:
            raise Boom
        return Again("10m") if len(asked) < 4 else End(len(asked))

    app = still.app(machine)
    async with still.worker(app) as worker:
        run = await app.start(machine(A(2)), id="run")
        await still.until_waiting(run, "sleeping until 14:00")
        await still.until_parked(run)
        forget_programs(worker)
        await still.advance("90m")
        assert (await run.view()).waiting.startswith("sleeping until 14:00 UTC, 30 min left")
        await still.advance("30m")
        await still.until(lambda: len(asked) == 1)
        await still.until_parked(run)
        for count in (3, 4):
            await still.advance("10m")
            if count == 3:
                await still.until(lambda: len(asked) >= 2)
                await still.advance("10m")
                await still.until(lambda: len(asked) >= 3)
                await still.until_parked(run)
        assert await run.result("30s") == End(4)


@pytest.mark.spec("cano.T7", "cano.T5")
@pytest.mark.parametrize(("errors", "asked"), [(0, 1), (2, 3)])
async def test_a_poll_under_an_app_bears_as_many_errors_in_a_row_as_it_says(
    world: World, errors: int, asked: int
) -> None:
    """Promise: none by default, whatever the policy of the machine; one more than it bears fails the state."""
    looks: list[int] = []
    machine = Machine[A, End]("errors", retry=Retry(9, first=0))

    @machine.poll(errors=errors)
    async def a(s: A) -> Again | End:
        looks.append(1)
        raise Boom(f"look {len(looks)}")

    async with world.serving(machine) as app:
        with pytest.raises(RunFailed, match=f"state A failed at attempt 1: .*Boom: look {asked}"):
            await (await app.start(machine(A()))).result("30s")
    assert len(looks) == asked


@pytest.mark.spec("cano.T7")
async def test_a_poll_under_an_app_has_one_time_limit(still: World) -> None:
    """Promise: the timeout bounds all looks together, by the clock of the store."""
    machine = Machine[A, End]("late", retry=ONCE)

    @machine.poll(timeout="1h")
    async def a(s: A) -> Again | End:
        return Again("40m")

    async with still.serving(machine) as app:
        run = await app.start(machine(A()))
        for wait in ("40m", "20m"):
            await still.until_parked(run)
            await still.advance(wait)
        with pytest.raises(RunFailed, match="state A failed"):
            await run.result("30s")


@pytest.mark.spec("cano.T5")
async def test_an_error_under_an_app_says_which_attempt_failed(world: World) -> None:
    """Promise: the attempt that failed last, not the first."""
    machine = Machine[A, End]("tries", retry=Retry(3, first=0))

    @machine.state
    async def a(s: A) -> End:
        raise Boom

    async with world.serving(machine) as app:
        with pytest.raises(RunFailed, match="state A failed at attempt 3"):
            await (await app.start(machine(A()))).result("30s")


@pytest.mark.spec("cano.T1")
@pytest.mark.parametrize("error", [Boom("declared"), Permanent("permanent")])
def test_declared_and_permanent_errors_under_an_app_are_not_tried_again(error: Exception) -> None:
    """Promise: as without an app: neither would be different the next time."""
    tries: list[int] = []
    machine = Machine[A, End]("final", raises=Boom)

    @machine.state
    async def a(s: A) -> End:
        tries.append(1)
        raise error

    with Sim(App("memory://", workflows=[machine])) as sim, pytest.raises((Boom, RunFailed), match=str(error)):
        sim.start(machine(A())).result("1d")
    assert len(tries) == 1


@pytest.mark.spec("cano.T2")
async def test_each_attempt_of_a_state_under_an_app_has_a_time_limit_of_its_own(world: World) -> None:
    """Promise: an attempt that hangs is cut off, and the next one has the whole time again."""
    tries: list[int] = []
    machine = Machine[A, End]("hangs", retry=Retry(2, first=0))

    @machine.state(timeout="50ms")
    async def a(s: A) -> End:
        tries.append(1)
        await asyncio.Event().wait()
        return End()

    async with world.serving(machine) as app:
        with pytest.raises(RunFailed, match="attempt 2: TimeoutError"):
            await (await app.start(machine(A()))).result("30s")
    assert len(tries) == 2


@pytest.mark.spec("cano.S9")
async def test_a_cancel_does_not_cut_the_rollback_of_a_machine_under_an_app(world: World) -> None:
    """Promise: what is being undone when the cancel comes is undone to its end, and so is the rest."""
    undoing, leave = asyncio.Event(), asyncio.Event()
    undone: list[str] = []
    machine = Machine[A, End]("back", retry=ONCE)

    @machine.state
    async def a(s: A) -> B:
        return B()

    @a.undo
    async def back_a(left: B, s: A) -> None:
        undone.append("A")

    @machine.state
    async def b(s: B) -> C:
        return C()

    @b.undo
    async def back_b(left: C, s: B) -> None:
        undoing.set()
        await leave.wait()
        undone.append("B")

    @machine.state
    async def c(s: C) -> End:
        raise Boom

    async with world.serving(machine) as app:
        run = await app.start(machine(A()))
        await world.until_set(undoing)
        await run.cancel()
        await world.until_waiting(run, "cleaning up after a cancel")
        leave.set()
        assert await run.wait("30s") is Status.CANCELLED
    assert undone == ["B", "A"]


@pytest.mark.spec("cano.S6")
async def test_a_result_under_an_app_that_cannot_be_stored_is_undone(world: World) -> None:
    """Promise: the state has acted and nothing will know of it, so it is undone at once."""
    undone: list[object] = []
    machine = Machine[A, End]("odd", retry=ONCE)

    @machine.state
    async def a(s: A) -> B:
        return B(cast("int", object()))

    @a.undo
    async def back(left: B, s: A) -> None:
        undone.append(s)

    @machine.state
    async def b(s: B) -> End:
        return End()

    async with world.serving(machine) as app:
        with pytest.raises(RunFailed):
            await (await app.start(machine(A(7)))).result("30s")
    assert undone == [A(7)]


@pytest.mark.spec("cano.T9")
async def test_finished_items_of_a_batch_never_run_again(world: World) -> None:
    """Promise: each item is recorded by itself; after a crash only the others run."""
    done: list[int] = []
    hang = asyncio.Event()
    machine = Machine[A, End]("batch", retry=ONCE)

    async def load(s: A) -> list[int]:
        return [0, 1, 2, 3]

    async def handle(item: int) -> int:
        done.append(item)
        if item == 2:
            await hang.wait()
        if item == 1:
            raise Boom(item)
        return item * 10

    @machine.batch(load, handle, concurrency=1)
    async def a(s: A, outcomes: list[ItemOutcome[int]]) -> End:
        return End(sum(x.value or 0 for x in outcomes) + sum(not x.is_ok for x in outcomes))

    app = world.app(machine)
    async with world.worker(app, ttl="1s") as first:
        run = await app.start(machine(A()), id="run")
        await world.until(lambda: done == [0, 1, 2])
        await crash(first)
    hang.set()
    async with world.worker(world.app(machine), ttl="1s"):
        assert await run.result("30s") == End(51)
    assert done == [0, 1, 2, 2, 3]


@pytest.mark.spec("cano.T11")
async def test_a_stream_goes_on_after_its_last_window(world: World) -> None:
    """Promise: the cursor of each window is recorded; the source is opened there."""
    opened: list[int | None] = []
    machine = Machine[A, End]("stream", retry=ONCE)

    async def read(s: A, cursor: int | None) -> AsyncIterator[tuple[int, str]]:
        opened.append(cursor)
        for number in range((cursor or 0) + 1, 6):
            yield number, f"line {number}"

    total: list[str] = []

    @machine.stream(read, window=2)
    async def a(s: A, window: Window[str]) -> End | None:
        total.extend(window.items)
        return End(len(total)) if window.is_last else None

    async with world.serving(machine) as app:
        run = await app.start(machine(A()), id="run")
        assert await run.result("30s") == End(5)
    assert opened == [None, 2, 4]
    keys = [event.data["key"] for event in await events(run) if event.type == "step"]
    assert keys == ["A", "A.1", "A.2"]


@pytest.mark.spec("cano.T12", "cano.T3", "cano.T14", "cano.T19")
async def test_splits_breakers_resources_and_observers_under_an_app(world: World) -> None:
    """Promise: one entry for a split; an open circuit calls no body; resources are the worker's; observers hear."""
    watcher = RecordingObserver()
    calls: list[str] = []

    @resource
    async def shelf() -> AsyncIterator[str]:
        calls.append("open")
        yield "B7"
        calls.append("close")

    machine = Machine[A, End]("mixed", observers=[watcher], resources=[shelf])

    async def left(s: A) -> str:
        return shelf()

    async def right(s: A) -> str:
        raise Boom

    @machine.split(left, right, join=Join.any(), retry=ONCE)
    async def a(s: A, found: list[str]) -> B:
        calls.extend(found)
        assert current().step == "A"
        return B(s.n)

    @machine.state(retry=Retry(5, first="1ms"), breaker=Breaker(2, reset="1h"))
    async def b(s: B) -> End:
        calls.append("B")
        raise Boom

    async with world.serving(machine) as app:
        run = await app.start(machine(A()), id="run")
        with pytest.raises(RunFailed, match="circuit breaker"):
            await run.result("30s")
        assert world.workers
        assert await world.workers[0].health() == {"shelf": "healthy"}
    assert calls == ["open", "B7", "B", "B", "close"]
    assert ("task_succeeded", "A", "left[0]", 1) in watcher.events
    assert ("circuit_open", "B") in watcher.events


async def test_script_verbs_in_a_state_are_refused_with_advice(world: World) -> None:
    """Promise: under an app as standalone, the error says `.script`."""
    machine = Machine[A, End]("verbs", retry=ONCE)

    @machine.state
    async def a(s: A) -> End:
        await sleep("1s")
        return End()

    async with world.serving(machine) as app:
        with pytest.raises(RunFailed, match=r"declared with \.script"):
            await (await app.start(machine(A()))).result("30s")
