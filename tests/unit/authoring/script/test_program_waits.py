"""What a script waits for: signals, topics, sleeps, children; and `patched`."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from holdfast.authoring.script.channels import Signal, Topic
from holdfast.authoring.script.children import start
from holdfast.authoring.script.verbs import now, patched, sleep
from holdfast.authoring.script.workflows import workflow
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.failure import Failure, from_exception
from holdfast.errors import ResultTimeout, RunFailed
from tests.support.pure import BEGIN, PureRun, check_replays, replay
from tests.unit.authoring.script.shipping import Refused, calls, echo, go, ship

other = Signal[str]("other")

news = Topic[str]("news")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    calls.clear()


# -- signals and topics ------------------------------------------------------------------------------------------------


def test_signals_are_buffered_and_taken_in_order() -> None:
    """Contract: a signal that comes before anybody waits is kept, and each is taken once, oldest first."""

    @workflow
    async def flow() -> list[int]:
        await echo("x")
        return [await go.wait(), await go.wait(), await go.wait()]

    run = PureRun(flow())
    run.turn()
    run.turn(run.signal(go, 1), run.signal(other, "no"), run.signal(go, 2))
    run.do()
    run.turn(run.signal(go, 3))
    assert run.result == [1, 2, 3]
    assert check_replays(flow.spec, run.turns) == 4


def test_concurrent_waiters_are_served_in_the_order_they_asked() -> None:
    """Contract: the wait asked for first gets the first signal."""

    @workflow
    async def flow() -> list[int]:
        return list(await asyncio.gather(go.wait(), go.wait(name="second")))

    run = PureRun(flow())
    run.turn()
    run.turn(run.signal(go, 1))
    run.turn(run.signal(go, 2))
    assert run.result == [1, 2]


def test_a_wait_that_runs_out_of_time_gives_its_default_or_raises() -> None:
    """Contract: `TimeoutError` without a default; and a message that comes later stays in the buffer."""

    @workflow
    async def flow() -> list[Any]:
        first = await go.wait(timeout="1m", default=None)
        try:
            await go.wait(timeout="1m")
        except TimeoutError as error:
            return [first, str(error)]
        return []

    assert PureRun(flow()).finish().result == [None, "no signal go came within 0:01:00"]


def test_a_given_up_wait_takes_no_message() -> None:
    """Contract: a wait ended by asyncio's timeout leaves the signal to the next one."""

    @workflow
    async def flow() -> int:
        try:
            async with asyncio.timeout(5):
                await go.wait()
        except TimeoutError:
            await echo("gave up")
        return await go.wait()

    run = PureRun(flow())
    run.turn()
    assert [x.key for x in run.fire() if isinstance(x, c.EndWait)] == ["go"]
    run.turn(run.signal(go, 7))
    run.do()
    assert run.result == 7


def test_a_topic_reaches_the_wait_it_was_published_to() -> None:
    """Contract: publications are delivered by key."""

    @workflow
    async def flow() -> list[str]:
        return list(await asyncio.gather(news.wait(), news.wait()))

    run = PureRun(flow())
    run.turn()
    run.turn(run.publication("news:1", news, "b"))
    run.turn(run.publication("news", news, "a"))
    assert run.result == ["a", "b"]
    assert check_replays(flow.spec, run.turns) == 3


def test_messages_sent_in_a_run_are_commands_of_its_turn() -> None:
    """Contract: sends are part of the turn, and repeated on no replay."""

    @workflow
    async def flow() -> None:
        _ = go.send("other-run", 1)
        news.publish("hello")
        await echo("x")

    sent = [(x.kind, x.to, x.name, x.value) for x in PureRun(flow()).turn() if isinstance(x, c.Send)]
    assert sent == [("signal", "other-run", "go", b"1"), ("publish", "news", "news", b'"hello"')]


# -- sleeps ------------------------------------------------------------------------------------------------------------


def test_a_sleep_keeps_its_first_end() -> None:
    """Contract: the end is fixed when the sleep is first met, whatever the code says later."""

    def make(seconds: int) -> Any:
        @workflow
        async def flow() -> str:
            await sleep(seconds)
            await asyncio.sleep(seconds)
            return now().isoformat()

        return flow

    old, new = make(60), make(600)
    run = PureRun(old())
    run.turn()
    program = replay(new.spec, run.turns)
    assert program.next_timer() == run.program.next_timer() == BEGIN + timedelta(seconds=60, milliseconds=10)
    program.close()
    run.finish()


def test_timers_fire_in_order_of_time_then_of_making() -> None:
    """Contract: what is due together fires in a fixed order."""

    @workflow
    async def flow() -> list[str]:
        order: list[str] = []

        async def nap(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            order.append(name)

        await asyncio.gather(nap("c", 3), nap("a", 1), nap("b", 1))
        return order

    run = PureRun(flow())
    run.turn()
    run.at += timedelta(seconds=10)
    due = run.program.due_timers(run.at)
    assert due == ["sleep:1", "sleep:2", "sleep"]
    run.turn(*(e.TimerFired(key=key) for key in due))
    assert run.result == ["a", "b", "c"]


# -- children ----------------------------------------------------------------------------------------------------------


def test_a_child_gives_its_result_or_its_error() -> None:
    """Contract: a declared exception as itself, everything else as `RunFailed`."""

    @workflow
    async def flow() -> list[str]:
        seen = [await ship("a")]
        for order in ("b", "c"):
            try:
                seen.append(await ship(order))
            except (Refused, RunFailed) as error:
                seen.append(type(error).__name__)
        return seen

    run = PureRun(flow())
    [asked] = run.turn()
    assert isinstance(asked, c.StartChild)
    assert (asked.run, asked.args) == ("run/ship", b'{"order":"a","express":false}')
    run.turn(run.child_end("ship", "a"))
    run.turn(run.child_end("ship:1", failure=from_exception(Refused("no"), declared=(Refused,))))
    run.turn(run.child_end("ship:2", failure=Failure(type="KeyError", message="x")))
    assert run.result == ["a", "Refused", "RunFailed"]
    assert check_replays(flow.spec, run.turns) == 4


def test_a_child_that_ended_in_time_counts_however_late_it_is_seen() -> None:
    """Contract: the child's own end decides, not when its parent wakes."""

    @workflow
    async def flow() -> str:
        try:
            return await start(ship("a"), timeout="1m").result()
        except ResultTimeout:
            return "late"

    for seconds, expected in ((59, "a"), (61, "late")):
        run = PureRun(flow())
        run.turn()
        end = msgspec.structs.replace(run.child_end("ship", "a"), ended_at=run.at + timedelta(seconds=seconds))
        run.turn(end, e.TimerFired(key="ship"), after=timedelta(hours=1))
        assert run.result == expected


def test_two_tasks_may_wait_for_one_child() -> None:
    """Contract: everybody who waits gets the result."""

    @workflow
    async def flow() -> list[str]:
        child = start(ship("a"), id="mine")
        return list(await asyncio.gather(child.result(), child.result()))

    run = PureRun(flow())
    run.turn()
    run.turn(run.child_end("ship", "a"))
    assert run.result == ["a", "a"]


def test_a_wait_for_a_child_ends_after_a_year_by_default() -> None:
    """Contract: a wait that times out fails the wait, never the child."""

    @workflow
    async def flow() -> str:
        child = start(ship("a"))
        try:
            return await child.result()
        except ResultTimeout:
            return f"gave up {child.id}"

    run = PureRun(flow())
    run.turn()
    assert run.program.next_timer() == run.at + timedelta(days=365)
    assert run.finish().result == "gave up run/ship"


def test_a_call_is_started_once() -> None:
    """Contract: starting or awaiting it again is an error, not a second child."""

    @workflow
    async def flow() -> str:
        call = ship("a")
        start(call)
        start(call)
        return ""

    assert "started before" in PureRun(flow()).finish().failure.message


def test_children_started_with_on_cancel_are_cancelled_with_their_parent() -> None:
    """Contract: the others are left running."""

    @workflow
    async def flow() -> None:
        start(ship("a"), on_cancel="cancel")
        start(ship("b"))
        await sleep("1h")

    run = PureRun(flow())
    run.turn()
    commands = run.turn(e.CancelRequested(reason="enough"))
    assert [(x.to, x.kind, x.name) for x in commands if isinstance(x, c.Send)] == [("run/ship", "cancel", "enough")]


# -- patched -----------------------------------------------------------------------------------------------------------


def _flow(*, is_new: bool) -> Any:
    @workflow
    async def flow() -> list[str]:
        seen = [await echo("a")]
        for _ in range(2):
            if is_new and patched("b first"):
                seen.append(await echo("b"))
            seen.append(await echo("c"))
        return seen

    return flow


def test_patched_is_true_for_new_runs_and_replays_so() -> None:
    """Contract: a run that meets the patch live takes the new path, recorded once."""
    new = _flow(is_new=True)
    run = PureRun(new()).finish()
    assert run.result == ["a", "b", "c", "b", "c"]
    assert sum(isinstance(x, e.Patched) for turn in run.turns for x in turn.events) == 1
    assert check_replays(new.spec, run.turns) == len(run.turns) - 1


def test_patched_is_false_for_runs_that_passed_the_place_before_and_stays_so() -> None:
    """Contract: an old run keeps the old path, also where it meets the patch again live."""
    old, new = _flow(is_new=False), _flow(is_new=True)
    run = PureRun(old())
    run.turn()
    run.do()
    run.program.close()
    run.program = replay(new.spec, run.turns)
    assert run.finish().result == ["a", "c", "c"]


def test_patched_is_true_for_old_runs_that_have_not_come_there() -> None:
    """Contract: an open run that has not met the place takes the new path."""
    old, new = _flow(is_new=False), _flow(is_new=True)
    run = PureRun(old())
    run.turn()
    run.program.close()
    run.program = replay(new.spec, run.turns)
    assert run.finish().result == ["a", "b", "c", "b", "c"]
