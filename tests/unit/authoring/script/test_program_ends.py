"""How a script ends before its end: cancelled, past its deadline, compensated, or closed without effects."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import uvloop

from holdfast import sync
from holdfast.authoring.script import bridge
from holdfast.authoring.script.channels import Signal
from holdfast.authoring.script.loop import graveyard_size
from holdfast.authoring.script.sagas import saga
from holdfast.authoring.script.steps import step
from holdfast.authoring.script.verbs import sleep
from holdfast.authoring.script.workflows import workflow
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.failure import Failure
from holdfast.core.step import STOPPED
from holdfast.errors import NeverWaits
from tests.support.pure import PureRun, check_replays, replay

CANCEL = e.CancelRequested(reason="enough", actor="me")
go = Signal[int]("go")
done: list[str] = []


@pytest.fixture(autouse=True)
def _fresh() -> None:
    done.clear()


@step
async def act(name: str) -> str:
    done.append(name)
    if name == "bad":
        raise ValueError(name)
    return name


@act.undo
async def unact(result: str, name: str) -> None:
    done.append(f"undo {name}")
    if name == "stuck":
        raise ValueError(name)


@step
def load(name: str) -> str:
    done.append(name)
    return name


# -- cancelled ---------------------------------------------------------------------------------------------------------


def test_cancel_raises_once_and_clean_up_steps_work() -> None:
    """Contract: CancelledError at the current await, then durable clean-up, then cancelled."""

    @workflow
    async def flow() -> None:
        try:
            await act("long")
        except asyncio.CancelledError:
            await act("clean")
            await sleep("1m")
            raise

    run = PureRun(flow())
    run.turn()
    commands = run.turn(CANCEL)
    assert [type(x) for x in commands] == [c.AbandonStep, c.RunStep]
    run.turn(CANCEL)
    run.finish()
    assert run.end == e.Cancelled(reason="enough", actor="me")
    assert done == ["clean"]
    assert check_replays(flow.spec, run.turns) == len(run.turns) - 1


def test_swallowing_the_cancel_still_ends_cancelled() -> None:
    """Contract: cancel wins every race, also against a body that returns."""

    @workflow
    async def flow() -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await act("long")
        return "finished"

    run = PureRun(flow())
    run.turn()
    run.turn(CANCEL)
    assert isinstance(run.end, e.Cancelled)


def test_a_run_cancelled_before_it_begins_never_begins() -> None:
    """Contract: no author code runs; and that journal replays."""

    @workflow
    async def flow() -> None:
        done.append("entered")

    run = PureRun(flow())
    run.turn(CANCEL)
    assert isinstance(run.end, e.Cancelled)
    replay(flow.spec, run.turns).close()
    assert done == []


def test_a_deadline_fails_the_run_after_its_clean_up() -> None:
    """Contract: as a cancel, but the run fails with DeadlineExceeded; a cancel meanwhile does not interrupt it."""

    @workflow(retry=3)
    async def flow() -> None:
        try:
            await sleep("1d")
        finally:
            await act("clean")

    run = PureRun(flow())
    run.turn()
    run.turn(e.DeadlineReached())
    run.do()
    assert run.failure.type == "DeadlineExceeded"

    run = PureRun(flow())
    run.turn()
    run.turn(e.DeadlineReached())
    run.turn(CANCEL)
    run.do()
    assert isinstance(run.end, e.Cancelled)
    assert done == ["clean", "clean"]


# -- sagas -------------------------------------------------------------------------------------------------------------


@workflow
async def booking(last: str) -> None:
    async with saga():
        await act("a")
        async with saga():
            await act("b")
        await act(last)


def test_a_failing_saga_undoes_in_reverse_also_what_an_inner_one_kept() -> None:
    """Contract: each undo is a durable step; the original error goes on."""
    run = PureRun(booking("bad")).finish()
    assert done == ["a", "b", "bad", "undo b", "undo a"]
    assert run.failure.type == "StepFailed"
    assert check_replays(booking.spec, run.turns) == len(run.turns) - 1


def test_a_saga_that_ends_well_keeps_what_it_did() -> None:
    """Contract: the journal says that these steps need no undo any more."""
    run = PureRun(booking("c")).finish()
    assert done == ["a", "b", "c"]
    assert e.Kept(keys=("act", "act:1", "act:2")) in run.turns[-1].events


def test_cancel_compensates_and_a_late_outcome_is_undone_too() -> None:
    """Contract: a step in flight that completes after all is undone as well."""
    run = PureRun(booking("c"))
    run.turn()
    run.do()
    run.do()
    run.turn(CANCEL)
    run.turn(run.outcome("act:2"))
    run.finish()
    assert done == ["a", "b", "c", "undo c", "undo b", "undo a"]
    assert isinstance(run.end, e.Cancelled)


def test_a_step_that_was_stopped_in_time_is_not_undone() -> None:
    """Contract: what did not take effect needs no undo."""
    run = PureRun(booking("c"))
    run.turn()
    run.do()
    run.do()
    run.turn(CANCEL)
    run.turn(e.StepFailed(key="act:2", failure=Failure(type=STOPPED, message="")))
    run.finish()
    assert done == ["a", "b", "undo b", "undo a"]


def test_a_cancel_during_compensation_lets_it_finish() -> None:
    """Contract: what is being undone is undone to the end, then the run ends cancelled."""
    run = PureRun(booking("bad"))
    run.turn()
    run.do()
    run.do()
    run.do()
    run.turn(CANCEL)
    run.finish()
    assert done == ["a", "b", "bad", "undo b", "undo a"]
    assert isinstance(run.end, e.Cancelled)


def test_failed_undos_are_collected_and_the_others_run() -> None:
    """Contract: `CompensationFailed` names each; under a cancel the reason does."""

    @workflow
    async def flow() -> None:
        async with saga():
            await act("a")
            await act("stuck")
            await act("bad")

    run = PureRun(flow()).finish()
    assert done[-2:] == ["undo stuck", "undo a"]
    assert run.failure.type.endswith("CompensationFailed")
    assert "act:1" in run.failure.message


def test_with_saga_in_async_code_is_refused() -> None:
    """Contract: the error says `async with`."""

    @workflow
    async def flow() -> None:
        with saga():
            pass

    assert "async with saga()" in PureRun(flow()).finish().failure.message


# -- closed ------------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def guarded() -> AsyncIterator[None]:
    try:
        yield
    finally:
        await act("from a context manager")


async def numbers() -> AsyncIterator[int]:
    try:
        for number in range(10):
            yield number
    finally:
        await act("from a generator")


@workflow
async def parks() -> None:
    try:
        async with guarded(), saga(), asyncio.TaskGroup() as group:
            group.create_task(_holds())
            await act("first")
            async for _ in numbers():
                await go.wait()
    except BaseException:
        await act("from except")
        _ = go.send("other", 1)
        raise
    finally:
        await asyncio.gather(act("one"), asyncio.to_thread(load, "two"))


async def _holds() -> None:
    try:
        await sleep("1h")
    finally:
        await act("from a task")


def parked() -> PureRun:
    run = PureRun(parks())
    run.turn()
    run.do("act")
    done.clear()
    return run


def close_it() -> None:
    run = parked()
    rows = len(run.turns)
    run.program.close()
    assert (run.program.activate(run.at, [run.signal(go, 1)]), len(run.turns)) == ([], rows)


def drop_it() -> None:
    parked()
    gc.collect()


@pytest.mark.parametrize("how", [close_it, drop_it])
@pytest.mark.parametrize("around", ["nothing", "asyncio", "asyncio debug", "uvloop"])
def test_a_closed_or_dropped_program_does_nothing_more(how: Callable[[], None], around: str) -> None:
    """Contract: `finally`, `except`, generators and context managers around a parked await act no more, whatever loop
    runs around the program."""

    async def inside() -> None:
        how()
        await asyncio.sleep(0)
        gc.collect()
        await asyncio.sleep(0)

    match around:
        case "nothing":
            how()
        case "uvloop":
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(inside())
        case _:
            asyncio.run(inside(), debug=around.endswith("debug"))
    gc.collect()
    assert done == []


def test_a_program_that_refuses_to_end_is_buried() -> None:
    """Contract: closing comes back, and what would not end is counted."""

    @workflow
    async def flow() -> None:
        while True:
            with contextlib.suppress(BaseException):
                await act("again")

    run = PureRun(flow())
    run.turn()
    before = graveyard_size()
    run.program.close()
    assert graveyard_size() == before + 1
    assert done == []


# -- sync workflows ----------------------------------------------------------------------------------------------------


def test_a_sync_workflow_is_cancelled_once_and_cleans_up() -> None:
    """Contract: as in async ones."""

    @workflow
    def flow() -> str:
        try:
            with sync.saga():
                load("a")
                sync.sleep("1h")
        except asyncio.CancelledError:
            load("clean")
        return "x"

    run = PureRun(flow.call())
    run.turn()
    run.do()
    run.turn(CANCEL)
    run.finish()
    assert done == ["a", "clean"]
    assert isinstance(run.end, e.Cancelled)
    assert check_replays(flow.spec, run.turns) == len(run.turns) - 1


def test_an_async_step_called_in_a_sync_workflow_is_not_forgotten() -> None:
    """Contract: the error says how a sync workflow waits for it."""

    @workflow
    def flow() -> None:
        act("x")  # type: ignore[unused-coroutine]

    assert "holdfast.sync" in PureRun(flow.call()).finish().failure.message


def test_closing_a_sync_workflow_ends_its_thread_without_effects() -> None:
    """Contract: also one that catches BaseException and asks for more."""

    @workflow
    def flow() -> None:
        try:
            load("a")
        except BaseException:
            load("from except")
            raise
        finally:
            load("from finally")

    before = threading.active_count()
    run = PureRun(flow.call())
    run.turn()
    assert threading.active_count() == before + 1
    run.program.close()
    _join("holdfast-flow")
    assert threading.active_count() == before
    assert (done, bridge.stuck_threads()) == ([], ())


def test_a_thread_that_will_not_end_is_counted_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract: closing comes back all the same; the thread is named while it lives."""
    monkeypatch.setattr(bridge, "PATIENCE", 0.01)
    may_end = threading.Event()

    @workflow(name="stubborn")
    def flow() -> None:
        try:
            load("a")
        except BaseException:  # noqa: BLE001 that is the point
            may_end.wait()

    run = PureRun(flow.call())
    run.turn()
    run.program.close()
    assert bridge.stuck_threads() == ("stubborn",)
    may_end.set()
    _join("holdfast-stubborn")
    assert bridge.stuck_threads() == ()


def test_a_sync_body_that_never_waits_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract: its worker does not stand still forever."""
    monkeypatch.setattr(bridge, "TURN", 0.01)
    monkeypatch.setattr(bridge, "PATIENCE", 0.01)
    may_end = threading.Event()

    @workflow(name="busy")
    def flow() -> None:
        may_end.wait()

    run = PureRun(flow.call())
    with pytest.raises(NeverWaits, match="move the work into a step"):
        run.turn()
    run.program.close()
    assert bridge.stuck_threads() == ("busy",)
    may_end.set()
    _join("holdfast-busy")


def test_a_program_that_never_waits_is_stopped() -> None:
    """Contract: it is not run forever."""

    @workflow
    async def flow() -> None:
        while True:  # noqa: ASYNC110 that is the point
            await asyncio.sleep(0)

    run = PureRun(flow())
    with pytest.raises(NeverWaits):
        run.turn()
    run.program.close()


def _join(name: str) -> None:
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join(10)


def test_context_variables_are_the_runs_own() -> None:
    """Contract: what the worker keeps in context variables does not reach the body; the body's own survive waits."""
    variable: Any = contextvars.ContextVar("variable", default="unset")

    @workflow
    async def flow() -> list[str]:
        seen = [variable.get()]
        variable.set("mine")
        await act("x")
        return [*seen, variable.get()]

    token = variable.set("the worker's")
    run = PureRun(flow()).finish()
    variable.reset(token)
    assert run.result == ["unset", "mine"]


def test_a_program_may_be_closed_twice() -> None:
    """Promise: who reads a journal again closes the program, and so does who gives the run up meanwhile."""
    run = parked()
    assert run.program.close()
    assert run.program.close()
