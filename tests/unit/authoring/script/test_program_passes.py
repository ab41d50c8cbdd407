"""A program's later passes and lives: retried, continued, and what each takes over."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from holdfast.authoring.script.children import start
from holdfast.authoring.script.sagas import saga
from holdfast.authoring.script.verbs import continue_as, current, now, sleep, uuid4
from holdfast.authoring.script.workflows import workflow
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.passes import last_beginning
from holdfast.core.retry import Retry
from holdfast.errors import NotAllowedHere
from tests.support.pure import PureRun, check_replays
from tests.unit.authoring.script.shipping import calls, echo, go, ship

AGAIN = Retry(5, first="1s")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()


def test_a_retried_body_goes_on_over_what_is_settled() -> None:
    """Contract: completed steps, slept sleeps, taken signals and started children are kept; nothing is done twice."""

    @workflow(retry=AGAIN)
    async def flow(fails: int) -> list[Any]:
        first = await echo(f"at {now().isoformat()}")
        await sleep("1m")
        await asyncio.sleep(60)
        taken = await go.wait()
        unique = str(uuid4())
        shipped = await ship("a")
        if current().attempt <= fails:
            raise ValueError("outside of steps")
        return [first, taken, unique, shipped]

    run = PureRun(flow(2))
    run.turn()
    run.do()
    run.fire()
    run.fire()
    run.turn(run.signal(go, 7))
    run.turn(run.child_end("ship", "a"))
    assert run.fold.retry is not None
    run.turn(run.signal(go, 8))  # comes between the passes
    run.fire()
    assert run.fold.retry is not None
    run.fire()
    first, taken, _, shipped = run.result
    assert (first, taken, shipped) == (calls[0], 7, "a")
    assert len(calls) == 1
    assert check_replays(flow.spec, run.turns) == len(run.turns) - 1


def test_a_wait_given_up_in_one_pass_is_waited_for_in_the_next() -> None:
    """Contract: only what was settled is kept; giving up settles nothing."""

    @workflow(retry=AGAIN)
    async def flow() -> int:
        try:
            async with asyncio.timeout(5):
                return await go.wait()
        except TimeoutError:
            raise ValueError("retry me") from None

    run = PureRun(flow())
    run.turn()
    run.fire()
    run.fire()
    run.turn(run.signal(go, 3))
    assert run.result == 3


def test_what_a_saga_took_back_is_done_again_under_another_key() -> None:
    """Contract: a step that was undone does not count as done in the next pass, and its identity is not used again."""

    @workflow(retry=AGAIN)
    async def flow() -> str:
        async with saga():
            done = await echo("x")
            if current().attempt == 1:
                raise ValueError("outside of steps")
            return done

    run = PureRun(flow()).finish()
    assert run.result == "x"
    assert calls == ["x", "undo x", "x"]
    asked = [x.key for turn in run.turns for x in turn.events if isinstance(x, e.StepScheduled)]
    assert asked == ["echo", "unecho", "echo^2"]
    assert check_replays(flow.spec, run.turns) == len(run.turns) - 1


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_cancel_reaches_the_children_of_earlier_lives(has_begun: bool) -> None:
    """Contract: a child started with `on_cancel="cancel"` is cancelled with its run after `continue_as` too, whether or
    not the new life has begun, and although it uses the child's key again; one that has ended is not."""

    @workflow
    async def flow(left: int) -> None:
        start(ship("gone"), on_cancel="cancel")
        start(ship("kept"), on_cancel="cancel")
        start(ship("free"))
        await go.wait()
        if left:
            continue_as(flow(left - 1))

    run = PureRun(flow(1))
    run.turn()
    run.turn(e.ChildEnded(key="ship", run="run/ship", status="completed"), run.signal(go, 1))
    if has_begun:
        run.turn()
    own = ["run#3/ship", "run#3/ship:1"] if has_begun else []
    commands = run.turn(e.CancelRequested(reason="enough"))
    told = [command.to for command in commands if isinstance(command, c.Send)]
    assert sorted(told) == sorted(["run/ship:1", *own])
    assert check_replays(flow.spec, run.turns)


def test_continue_as_begins_anew_and_keeps_unread_signals() -> None:
    """Contract: a signal that was taken is not taken again, an unread one is still there, children have new ids."""

    @workflow
    async def flow(total: int) -> int:
        taken = await go.wait()
        await ship(str(taken))
        if total + taken < 6:
            continue_as(flow(total + taken))
        return total + taken

    run = PureRun(flow(0))
    run.turn()
    run.turn(run.signal(go, 1), run.signal(go, 2))
    run.turn(run.child_end("ship", "1"))
    run.turn()
    run.turn(run.child_end("ship", "2"))
    run.turn(run.signal(go, 3))
    run.turn(run.child_end("ship", "3"))
    assert run.result == 6
    children = [x.run for turn in run.turns for x in turn.events if isinstance(x, e.ChildStarted)]
    assert len(set(children)) == 3


def test_a_signal_taken_in_the_turn_that_continues_is_taken() -> None:
    """Contract: the commonest loop of all, wait and continue, sees every signal once."""

    @workflow
    async def flow(seen: list[int]) -> list[int]:
        seen.append(await go.wait())
        if len(seen) < 3:
            continue_as(flow(seen))
        return seen

    run = PureRun(flow([]))
    run.turn()
    for number in (1, 2, 3):
        if run.program.has_begun:
            run.turn(run.signal(go, number))
        else:
            run.turn()
            run.turn(run.signal(go, number))
    assert run.result == [1, 2, 3]


def test_the_end_of_an_earlier_lifes_child_is_not_taken_for_a_later_ones() -> None:
    """Contract: an end belongs to a child by run id."""

    @workflow
    async def flow(life: int) -> str:
        child = start(ship(str(life)))
        if life == 1:
            continue_as(flow(2))
        return await child.result()

    run = PureRun(flow(1))
    run.turn()
    run.turn()
    old = e.ChildEnded(key="ship", run="run/ship", status="completed", value=msgspec.Raw(b'"old"'), ended_at=run.at)
    run.turn(old)
    assert run.end is None
    run.turn(run.child_end("ship", "new"))
    assert run.result == "new"


def test_continue_as_in_a_task_is_refused() -> None:
    """Contract: it ends the whole body, so it belongs there."""

    @workflow
    async def flow() -> None:
        async def inner() -> None:
            continue_as(flow())

        await asyncio.create_task(inner())

    assert NotAllowedHere.__name__ in PureRun(flow()).finish().failure.type


def test_a_retried_run_takes_over_only_calls_with_the_same_arguments() -> None:
    """Contract: `run.retry()` after a fix: a call that the new code makes otherwise has not been done."""

    @workflow
    async def flow() -> list[str]:
        return [await echo("same"), await echo("new")]

    facts = (
        e.StepScheduled(key="echo", value=msgspec.Raw(b'{"text":"same"}')),
        e.StepCompleted(key="echo", value=msgspec.Raw(b'"kept"')),
        e.StepScheduled(key="echo:1", step="echo", value=msgspec.Raw(b'{"text":"old"}')),
        e.StepCompleted(key="echo:1", value=msgspec.Raw(b'"kept too"')),
    )
    run = PureRun(flow())
    started = msgspec.structs.replace(run.turns[0].events[0], retried_from="earlier")
    run.turns[0] = msgspec.structs.replace(run.turns[0], events=(started, e.Adopted(facts=facts)))
    beginning, _ = last_beginning("run", run.turns)
    run.program.beginning = beginning
    assert run.finish().result == ["kept", "new"]
    assert calls == ["new"]
