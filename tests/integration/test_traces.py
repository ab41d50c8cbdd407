"""The trace context of whoever starts a run or sends a message, and where it goes from there."""

from __future__ import annotations

from typing import Any, cast

import pytest

from holdfast import Signal, Topic, start, step, workflow
from holdfast.core import events as e
from holdfast.core.fold import fold
from holdfast.core.snapshot import advance, unfolded_past
from holdfast.core.turn import decode_rows
from holdfast.testing import Sim
from holdfast.testing.virtual_loop import at_once

FIRST, SECOND, THIRD = (f"00-{digit * 32}-{digit * 16}-01" for digit in "123")
go = Signal[bool]("go")
news = Topic[str]("news")


@step
async def work() -> int:
    return 1


@workflow
async def listens() -> str:
    await go.wait()
    return await news.wait()


@workflow
async def parent() -> None:
    await work()
    start(listens(), id="child")
    await go.send("child", True)
    news.publish("now")


@pytest.fixture
def traced(sim: Sim) -> list[str]:
    """What the tracer says next."""
    current = [""]
    sim._client.current_trace = lambda: current[0]  # pyright: ignore[reportPrivateUsage]
    sim.serve(listens, parent)
    return current


def facts(sim: Sim, run: str, kind: type[e.Event]) -> list[Any]:
    """The facts of that kind in a journal."""
    turns = decode_rows(at_once(sim.store.history(run)))
    return [event for turn in turns for event in turn.events if isinstance(event, kind)]


def test_a_trace_goes_from_a_run_to_its_children_and_messages(sim: Sim, traced: list[str]) -> None:
    """Promise: whatever is current when the run takes its turns, they belong to the trace that it was started in."""
    traced[0] = FIRST
    run = sim.start(parent(), id="parent")
    traced[0] = SECOND
    run.wait()
    assert [x.trace for x in facts(sim, "parent", e.Started)] == [FIRST]
    assert [x.trace for x in facts(sim, "child", e.Started)] == [FIRST]
    assert [x.trace for x in facts(sim, "child", e.SignalReceived)] == [FIRST]


def test_a_message_from_outside_belongs_to_the_trace_of_its_sender(sim: Sim, traced: list[str]) -> None:
    """Promise: signals, publications and cancels say whose they are; the run stays in its own trace."""
    traced[0] = FIRST
    run = sim.start(listens(), id="r")
    traced[0] = SECOND
    run.signal(go, True)
    traced[0] = THIRD
    sim.publish(news, "now")
    assert run.result() == "now"
    assert [x.trace for x in facts(sim, "r", e.SignalReceived)] == [SECOND]
    assert [x.trace for x in facts(sim, "r", e.TopicReceived)] == [THIRD]
    other = sim.start(listens(), id="other")
    sim.advance("1s")
    traced[0] = SECOND
    other.cancel("enough")
    other.wait()
    assert [x.trace for x in facts(sim, "other", e.CancelRequested)] == [SECOND]


def test_a_retry_belongs_to_the_trace_of_who_asks_for_it(sim: Sim, traced: list[str]) -> None:
    """Promise: the original has ended, and with it its trace."""
    traced[0] = FIRST
    sim.start(listens(), id="r").kill()
    traced[0] = SECOND
    sim.get("r").retry(id="again")
    assert [x.trace for x in facts(sim, "again", e.Started)] == [SECOND]


def test_a_snapshot_knows_the_trace(sim: Sim, traced: list[str]) -> None:
    """Promise: children of a run that was loaded from a snapshot belong to the same trace."""
    traced[0] = FIRST
    sim.start(listens(), id="r")
    turns = decode_rows(at_once(sim.store.history("r")))
    past, _ = advance("r", None, turns)
    assert unfolded_past("r", past).trace == fold("r", turns).trace == FIRST


def test_without_a_tracer_nothing_is_written(sim: Sim) -> None:
    """Promise: a journal without traces takes not one byte more."""
    sim.serve(listens, parent)
    sim.start(parent(), id="parent").wait()
    assert not any(b"trace" in row.body for row in at_once(sim.store.read_tree("parent")))


def test_every_entry_says_its_run_and_its_root(sim: Sim) -> None:
    """Promise: entries of several runs of a tree can be told apart when they stand together."""
    sim.serve(listens, parent)
    sim.start(parent(), id="parent").wait()
    followed = [*sim.get("parent").follow(), *sim.get("child").follow()]
    assert {(entry.run, entry.root) for entry in followed} == {("parent", "parent"), ("child", "parent")}
    assert cast("Any", followed[0]).type == "started"
