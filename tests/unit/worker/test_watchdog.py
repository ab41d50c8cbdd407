"""The watchdog: a blocked event loop is reported once, with the author's function and line."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable

import pytest

from holdfast import App, step, workflow
from holdfast.adapters.memory.store import MemoryStore
from holdfast.adapters.telemetry.logs import logged
from holdfast.ports.facts import Fact, LoopBlocked, ProcessStopped
from holdfast.worker.watchdog import Watchdog

SHORT = 0.02


@pytest.fixture
async def watchdog() -> AsyncIterator[Watchdog]:
    made = Watchdog(logged().tell, patience=SHORT)
    made.start()
    yield made
    made.stop()


def block(until: Callable[[], bool]) -> None:
    """Keeps the loop from turning until the watchdog has spoken; gives up after a while."""
    ends = time.monotonic() + 10
    while not until() and time.monotonic() < ends:
        threading.Event().wait(0.001)


async def test_a_blocked_loop_is_reported_once_with_the_line(
    watchdog: Watchdog, caplog: pytest.LogCaptureFixture
) -> None:
    """Promise: one report a blockage: the function the loop entered, and where it stands now."""

    done = asyncio.Event()

    def culprit() -> None:
        block(lambda: bool(watchdog.reports))
        block(lambda: time.monotonic() > ends)
        done.set()

    ends = time.monotonic() + 6 * SHORT
    asyncio.get_running_loop().call_soon(culprit)
    await done.wait()
    assert len(watchdog.reports) == 1
    assert watchdog.reports[0].partition(" (")[0].endswith("culprit")
    assert __file__ in watchdog.reports[0]
    assert "move blocking work into a sync step" in caplog.text


async def test_a_loop_that_turns_is_left_alone() -> None:
    """Promise: no report while the loop turns, and none once it was stopped."""
    calm = Watchdog(logged().tell, patience=5)
    calm.start()
    for _ in range(10):
        await asyncio.sleep(0)
    calm.stop()
    calm._thread.join(10)
    assert calm.reports == []


@pytest.mark.parametrize(("used", "blamed"), [(0.1, False), (59.0, True)])
async def test_a_process_that_was_stopped_blames_no_code(used: float, blamed: bool) -> None:
    """Promise: after a SIGSTOP or a sleep of the machine it says so; a minute in which this process was busy is a
    blocked loop."""
    told: list[Fact] = []
    watchdog = Watchdog(told.append, patience=30)
    begin, spent = time.monotonic(), time.process_time()
    watchdog.look(begin, spent)
    watchdog.look(begin + 60, spent + used)
    assert [type(one) for one in told] == ([LoopBlocked] if blamed else [ProcessStopped])


@pytest.mark.parametrize("where", ["step", "workflow"])
async def test_a_worker_names_the_blocking_step_or_workflow(
    where: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Promise: the report names the author's step or workflow, also if the line that blocks is a library's."""
    monkeypatch.setattr(Watchdog.__init__, "__kwdefaults__", {"patience": SHORT})

    def told() -> bool:
        return "event loop has been blocked" in caplog.text

    @step
    async def greedy_step() -> None:
        if where == "step":
            block(told)

    @workflow
    async def greedy_workflow() -> None:
        if where == "workflow":
            block(told)
        await greedy_step()

    app = App(workflows=[greedy_workflow], store=MemoryStore())
    with caplog.at_level(logging.WARNING, logger="holdfast.worker"):
        async with app.worker(poll="50ms"):
            await (await app.start(greedy_workflow())).result("60s")
    assert f"greedy_{where} ({__file__}:" in caplog.text
