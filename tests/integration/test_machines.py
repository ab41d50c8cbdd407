"""Machines under an app: states as steps, one write a transition, replayed, cancelled and undone like scripts."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast import (
    CompensationFailed,
    Machine,
    More,
    RunCancelled,
    RunFailed,
    Status,
    workflow,
)
from tests.support.world import World, crash, events
from tests.unit.authoring.machine import stage
from tests.unit.authoring.machine.stage import ONCE, A, B, C, Chain, D, End


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
