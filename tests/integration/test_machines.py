"""Machines under an app: states as steps, one write a transition, replayed, cancelled and undone like scripts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast import (
    Again,
    Breaker,
    CompensationFailed,
    ItemOutcome,
    Join,
    Machine,
    More,
    Retry,
    RunCancelled,
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
from holdfast.testing.machines import RecordingObserver
from tests.support.world import World, crash, events, forget_programs
from tests.unit.authoring.machine import stage
from tests.unit.authoring.machine.stage import ONCE, A, B, C, Chain, D, End

go = Signal[int]("go")


@dataclass
class Empty: ...


class Boom(Exception):
    """What goes wrong."""


class Order:
    """A machine of every kind of state, and what its bodies did."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.fails: set[str] = set()
        self.hang: dict[str, asyncio.Event] = {}
        self.machine = machine = Machine[A, End]("order", retry=ONCE)

        async def act(name: str) -> None:
            self.done.append(name)
            if name in self.hang:
                await self.hang[name].wait()
            if name in self.fails:
                raise Boom(name)

        @machine.state
        async def a(s: A) -> B:
            await act("A")
            return B(s.n + 1)

        @a.undo
        async def undo_a(left: B, s: A) -> None:
            await act(f"undo A{s.n} left B{left.n}")

        @machine.router
        def b(s: B) -> C:
            return C(s.n + 10)

        @machine.stepped
        async def c(s: C, cursor: int | None) -> More[int] | D:
            at = cursor or 0
            await act(f"C{at}")
            return More(at + 1) if at < 2 else D(s.n + at)

        @machine.state
        async def d(s: D) -> End:
            await act("D")
            return End(s.n)

        @d.undo
        async def undo_d(left: End, s: D) -> None:
            await act("undo D")


@pytest.mark.spec("cano.F3", "cano.F6", "cano.F7", "cano.F8")
async def test_a_transition_is_one_write(world: World) -> None:
    """Promise: a state's completion and the next one's entry stand in one row; a router leaves no trace."""
    order = Order()
    async with world.serving(order.machine) as app:
        run = await app.start(order.machine(A(1)), id="run")
        assert await run.result("30s") == End(14)
    rows: dict[int, list[str]] = {}
    for event in await events(run):
        said = f"{event.type} {event.data.get('key', '')}".strip()
        rows.setdefault(event.ordinal, []).append(said)
    assert list(rows.values())[1:] == [
        ["claimed", "step A"],
        ["done A", "step C"],
        ["done C", "step C.1"],
        ["done C.1", "step C.2"],
        ["done C.2", "step D"],
        ["done D", "kept", "completed"],
    ]


@pytest.mark.spec("cano.Z1", "cano.Z2", "cano.Z8", "traps.A1")
@pytest.mark.parametrize("where", ["A", "C0", "C1", "D"])
async def test_after_a_crash_another_worker_enters_the_state_again(world: World, where: str) -> None:
    """Promise: what completed never runs again, cursors included; what was in flight does."""
    order = Order()
    order.hang[where] = asyncio.Event()
    app = world.app(order.machine)
    async with world.worker(app, ttl="1s") as first:
        run = await app.start(order.machine(A(1)), id="run")
        await world.until(lambda: where in order.done)
        await crash(first)
    order.hang[where].set()
    before = list(order.done)
    async with world.worker(world.app(order.machine), ttl="1s"):
        assert await run.result("30s") == End(14)
    assert order.done == [*before, *["A", "C0", "C1", "C2", "D"][len(before) - 1 :]]


@pytest.mark.spec("cano.S1", "cano.S2", "cano.T5", "cano.S7")
async def test_a_failure_undoes_completed_states_and_says_where_it_was(world: World) -> None:
    """Promise: in reverse, with what they returned and were given; the error has state, attempt and path."""
    order = Order()
    order.fails = {"D"}
    async with world.serving(order.machine) as app:
        run = await app.start(order.machine(A(1)), id="run")
        with pytest.raises(RunFailed) as caught:
            await run.result("30s")
    assert order.done == ["A", "C0", "C1", "C2", "D", "undo A1 left B2"]
    assert caught.value.type == "StateFailed"
    for words in (
        "machine order",
        "state D",
        "attempt 1",
        "A → B → C → D",
        "Boom",
        "D may have acted and is not undone",
    ):
        assert words in caught.value.message
    assert not (await events(run))[-1].data.get("undone")


@pytest.mark.spec("cano.S3")
async def test_a_crash_in_the_rollback_goes_on_going_back(world: World) -> None:
    """Promise: the undo that was in flight runs again; nothing goes forward."""
    order = Order()
    order.fails = {"D"}
    order.hang["undo A1 left B2"] = asyncio.Event()
    app = world.app(order.machine)
    async with world.worker(app, ttl="1s") as first:
        run = await app.start(order.machine(A(1)), id="run")
        await world.until(lambda: "undo A1 left B2" in order.done)
        await crash(first)
    order.fails.clear()
    order.hang["undo A1 left B2"].set()
    async with world.worker(world.app(order.machine), ttl="1s"):
        assert await run.wait("30s") is Status.FAILED
    assert order.done[4:] == ["D", "undo A1 left B2", "undo A1 left B2"]


@pytest.mark.spec("cano.S9", "cano.T15")
async def test_a_cancel_waits_for_a_state_that_can_be_undone_and_undoes_it(world: World) -> None:
    """Promise: it is not cut; its completion is recorded and undone; the run ends cancelled."""
    order = Order()
    order.hang["A"] = asyncio.Event()
    async with world.serving(order.machine) as app:
        run = await app.start(order.machine(A(1)), id="run")
        await world.until(lambda: "A" in order.done)
        await run.cancel("enough")
        await world.until_waiting(run, "cleaning up")
        order.hang["A"].set()
        with pytest.raises(RunCancelled):
            await run.result("30s")
    assert order.done == ["A", "undo A1 left B2"]


@pytest.mark.spec("cano.S4", "cano.S5")
async def test_a_dirty_rollback_names_what_was_not_undone(world: World) -> None:
    """Promise: the run fails with CompensationFailed, and its end lists the states."""
    order = Order()
    order.fails = {"D", "undo A1 left B2"}
    async with world.serving(order.machine) as app:
        run = await app.start(order.machine(A(1)), id="run")
        with pytest.raises(RunFailed) as caught:
            await run.result("30s")
    assert caught.value.type == CompensationFailed.__name__
    assert (await events(run))[-1].data["undone"] == ["A"]


async def test_compensation_has_a_time_of_its_own(still: World) -> None:
    """Promise: an undo that hangs is given up after compensation_timeout, and the rest is listed."""
    machine = Machine[A, End]("slow", retry=ONCE, compensation_timeout="1m")
    begun: list[str] = []

    @machine.state
    async def a(s: A) -> B:
        return B()

    @a.undo
    async def undo_a(left: B, s: A) -> None:
        begun.append("A")

    @machine.state
    async def b(s: B) -> C:
        return C()

    @b.undo
    async def undo_b(left: C, s: B) -> None:
        begun.append("B")
        await asyncio.Event().wait()

    @machine.state
    async def c(s: C) -> End:
        raise Boom

    async with still.serving(machine) as app:
        run = await app.start(machine(A()), id="run")
        await still.until(lambda: begun == ["B"])
        await still.until_waiting(run, "undo B")
        await still.advance("61s")
        await still.until_status(run, Status.FAILED)
    assert begun == ["B"]
    assert sorted((await events(run))[-1].data["undone"]) == ["A", "B"]


# -- scripts, timers, polls --------------------------------------------------------------------------------------------


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


async def test_a_machine_is_a_child_like_any_workflow(world: World) -> None:
    """Promise: awaited in a script it is a child run; states without data are empty classes."""
    machine = Machine[Empty, End]("inner", retry=ONCE)

    @machine.state
    async def a(s: Empty) -> End:
        return End(7)

    @workflow
    async def outer() -> int:
        return (await machine(Empty())).n

    async with world.serving(machine, outer) as app:
        run = await app.start(outer(), id="outer")
        assert await run.result("30s") == 7
        inner = await app.get("outer/inner", machine)
        assert await inner.result("30s") == End(7)


async def test_a_machine_run_standalone_in_a_workflow_is_refused(world: World) -> None:
    """Promise: nothing is silently non-durable: the error says what to do instead."""
    order = Order()

    @workflow
    async def outer() -> None:
        await order.machine.run(A(1))

    async with world.serving(order.machine, outer) as app:
        with pytest.raises(RunFailed, match="await order"):
            await (await app.start(outer())).result("30s")
    assert not order.done


@pytest.mark.spec("cano.S2")
@pytest.mark.parametrize("k", range(4))
async def test_a_failure_at_every_step_undoes_exactly_the_completed_prefix(world: World, k: int) -> None:
    """Promise: under an app as standalone, for all k."""
    names = "ABCD"
    chain = Chain(fail=names[k])
    async with world.serving(chain.machine) as app:
        run = await app.start(chain.machine(stage.A()), id="run")
        assert await run.wait("30s") is Status.FAILED
    assert chain.done == [*names[: k + 1], *(f"undo {name}" for name in reversed(names[:k]))]


async def test_a_retried_run_does_again_what_was_undone(world: World) -> None:
    """Promise: run.retry() of a failed machine begins anew where its work was taken back, and undoes it again."""
    chain = Chain(fail="D")
    async with world.serving(chain.machine) as app:
        run = await app.start(chain.machine(stage.A()), id="run")
        await run.wait("30s")
        chain.fail = ""
        chain.done.clear()
        again = await run.retry(id="again")
        assert await again.result("30s") == stage.End(4)
    assert chain.done == ["A", "B", "C", "D"]


async def test_a_renamed_state_goes_on_under_its_old_label(world: World) -> None:
    """Promise: with was= an open run replays, also when the state is visited again."""
    hang = asyncio.Event()

    def version(label: str, was: str) -> Machine[Any, Any]:
        middle = {"B": B, "C": C}[label]
        machine = Machine[A, End]("rename", retry=ONCE)

        async def a(s: A) -> Any:
            return middle(s.n)

        async def work(s: Any) -> Any:
            if s.n == 1 and label == "B":
                await hang.wait()
            return A(s.n + 1) if s.n < 3 else End(s.n)

        a.__annotations__ = {"s": A, "return": middle}
        work.__annotations__ = {"s": middle, "return": A | End}
        machine.state(a)
        machine.state(was=was)(work)
        return machine

    old, new = version("B", ""), version("C", "B")
    app = world.app(old)
    async with world.worker(app, ttl="1s") as first:
        run = await app.start(old(A(0)), id="run")
        await world.until_waiting(run, "step B:1")
        await crash(first)
    async with world.worker(world.app(new), ttl="1s"):
        assert await run.result("30s") == End(3)
    keys = [event.data["key"] for event in await events(run) if event.type == "step"]
    assert keys == ["A", "B", "A:1", "B:1", "A:2", "B:2", "A:3", "B:3"]


async def test_a_declared_exception_leaves_the_run_as_itself(world: World) -> None:
    """Promise: raises= of a machine is as that of a workflow."""
    machine = Machine[A, End]("declared", raises=Boom)

    @machine.state
    async def a(s: A) -> End:
        raise Boom("no stock")

    async with world.serving(machine) as app:
        with pytest.raises(Boom, match="no stock"):
            await (await app.start(machine(A()))).result("30s")
