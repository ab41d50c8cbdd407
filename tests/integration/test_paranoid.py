"""`App(paranoid=True)`: code that is not deterministic is found when its run is parked, not after a crash."""

from __future__ import annotations

import logging

import pytest

from holdfast import App, Signal, sleep, step, workflow
from holdfast.core.status import Status
from holdfast.testing import Sim

calls = {"count": 0}
go = Signal[bool]("go")


@step
async def note(text: str) -> str:
    return text


@workflow
async def counts() -> str:
    calls["count"] += 1
    await note(f"run {calls['count']}")
    await go.wait()
    return "done"


@workflow
async def counts_and_ends() -> str:
    calls["count"] += 1
    return await note(f"run {calls['count']}")


@workflow
async def steady(name: str) -> str:
    await note(name)
    await sleep("1h")
    await go.wait()
    return await note(f"{name} again")


def test_a_run_that_replays_otherwise_is_paused_when_it_parks() -> None:
    """Contract: the run is paused as diverged, with both sides and the line; no crash and no restart was needed."""
    with Sim(App("memory://", workflows=[counts], paranoid=True)) as sim:
        run = sim.start(counts())
        assert run.status() is Status.PAUSED
        assert "diverged" in run.waiting
        (paused,) = [event for event in run.follow() if event.type == "paused"]
        assert "the journal says step 'note'" in paused.data["detail"]
        assert "the code asked for step 'note'" in paused.data["detail"]
        assert "test_paranoid.py:" in paused.data["detail"]


def test_without_it_the_same_run_waits() -> None:
    with Sim(App("memory://", workflows=[counts])) as sim:
        assert "waiting for signal go" in sim.start(counts()).waiting


def test_one_that_has_ended_is_spoken_of(caplog: pytest.LogCaptureFixture) -> None:
    """Contract: an end is an end; the log says that the code is not deterministic."""
    with (
        caplog.at_level(logging.ERROR, "holdfast.worker"),
        Sim(App("memory://", workflows=[counts_and_ends], paranoid=True)) as sim,
    ):
        assert sim.start(counts_and_ends()).status() is Status.COMPLETED
    assert "has ended, but its code is not deterministic" in caplog.text


def test_steady_code_goes_on() -> None:
    """Contract: a deterministic run is not disturbed, however often it is parked."""
    with Sim(App("memory://", workflows=[steady], paranoid=True)) as sim:
        run = sim.start(steady("a"))
        sim.advance("1h")
        run.signal(go, True)
        assert run.result() == "a again"
        assert [event.type for event in run.follow() if event.type == "paused"] == []
