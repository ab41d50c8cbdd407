"""States that keep a cursor: stepped, batch and stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast import (
    ItemOutcome,
    Machine,
    More,
    Retry,
    RunCancelled,
    StateFailed,
    Window,
)
from holdfast.testing.machines import MemoryLog
from tests.unit.authoring.machine.stage import ONCE, A, Boom, End, failing, play, timed


@pytest.mark.spec("cano.T10")
def test_a_step_is_tried_again_with_the_same_cursor() -> None:
    """Promise: the policy wraps each call."""
    seen: list[int | None] = []
    machine = Machine[A, End]("same")

    @machine.stepped(retry=Retry(2, first="1s"))
    async def step(s: A, cursor: int | None) -> More[int] | End:
        seen.append(cursor)
        if len(seen) == 2:
            raise Boom
        return More((cursor or 0) + 1) if (cursor or 0) < 2 else End()

    play(machine.run(A()))
    assert seen == [None, 1, 1, 2]


def batch_machine(told: list[int], broken: list[int]) -> Machine[A, End]:
    """Items 0…n-1, doubled; those in `broken` fail, 99 there stops the process."""
    machine = Machine[A, End]("batch", retry=ONCE)

    async def load(s: A) -> list[int]:
        return list(range(s.n))

    async def double(item: int) -> int:
        await asyncio.sleep(1)
        told.append(item)
        if item in broken:
            raise Boom(item)
        if 99 in broken and item == 3:
            raise KeyboardInterrupt
        return item * 2

    @machine.batch(load, double, concurrency=2)
    async def total(s: A, outcomes: list[ItemOutcome[int]]) -> End:
        assert [outcome.index for outcome in outcomes] == list(range(s.n))
        return End(sum(outcome.value or 0 for outcome in outcomes) + 1000 * sum(not x.is_ok for x in outcomes))

    return machine


@pytest.mark.spec("cano.T9")
def test_a_batch_gives_one_outcome_for_each_item_in_order() -> None:
    """Promise: a failed item is an outcome, not an error; so many at once."""
    told: list[int] = []
    end, seconds = timed(batch_machine(told, [2]).run(A(6)))
    assert end == End(2 * (0 + 1 + 3 + 4 + 5) + 1000)
    assert 3 <= seconds < 3.1


@pytest.mark.spec("cano.T9")
def test_outcomes_come_in_the_order_of_the_items_whichever_ends_first() -> None:
    """Promise: a later item that is quicker does not change places with an earlier one."""
    machine = Machine[A, End]("order", retry=ONCE)
    found: list[tuple[int, int | None]] = []

    async def load(s: A) -> list[int]:
        return [3, 1, 2]

    async def wait(item: int) -> int:
        await asyncio.sleep(item)
        return item

    @machine.batch(load, wait, concurrency=3)
    async def total(s: A, outcomes: list[ItemOutcome[int]]) -> End:
        found.extend((outcome.index, outcome.value) for outcome in outcomes)
        return End()

    play(machine.run(A()))
    assert found == [(0, 3), (1, 1), (2, 2)]


@pytest.mark.spec("cano.T9")
def test_a_resumed_batch_keeps_the_results_of_finished_items() -> None:
    """Promise: only the others run again."""
    told: list[int] = []
    machine = batch_machine(told, [])
    log = MemoryLog()
    play(machine.run(A(6), store=log, id="run", keep_log=True))
    log.runs["run"] = {n: row for n, row in log.runs["run"].items() if n < 4}
    told.clear()
    assert play(machine.resume("run", store=log)) == End(30)
    assert sorted(told) == [3, 4, 5]


class Lines:
    """A stream of numbered lines, and what was written of it."""

    def __init__(self, count: int, **options: Any) -> None:
        self.windows: list[tuple[list[int], bool]] = []
        self.opened: list[int | None] = []
        self.fails: set[int] = set()
        self.pause = 0.0
        self.machine = machine = Machine[A, End]("lines", retry=ONCE)

        async def read(s: A, cursor: int | None) -> AsyncIterator[tuple[int, int]]:
            self.opened.append(cursor)
            for number in range((cursor or 0) + 1, count + 1):
                await asyncio.sleep(self.pause)
                yield number, number * 10

        @machine.stream(read, **options)
        async def write(s: A, window: Window[int]) -> End | None:
            if self.fails & set(window.items):
                raise Boom(window.items)
            self.windows.append((window.items, window.is_last))
            return End(sum(len(items) for items, _ in self.windows)) if window.is_last else None


@pytest.mark.spec("cano.T11")
def test_a_stream_is_handed_over_in_windows_and_its_cursor_follows_each() -> None:
    """Promise: full windows, the rest as the last one; the cursor is durable after each."""
    lines = Lines(5, window=2)
    log = MemoryLog()
    assert play(lines.machine.run(A(), store=log, id="run", keep_log=True)) == End(5)
    assert lines.windows == [([10, 20], False), ([30, 40], False), ([50], True)]
    assert [row.blob for row in play(log.load("run")) if row.kind == "cursor"] == [b"2", b"4"]
    log.runs["run"] = {n: row for n, row in log.runs["run"].items() if n < 2}
    lines.windows.clear()
    play(lines.machine.resume("run", store=log))
    assert lines.opened == [None, 2]
    assert lines.windows[0] == ([30, 40], False)


@pytest.mark.spec("cano.T11")
def test_a_window_may_end_by_time() -> None:
    """Promise: what came within that time is handed over."""
    lines = Lines(5, window=100, within="25s")
    lines.pause = 10.0
    play(lines.machine.run(A()))
    assert [items for items, _ in lines.windows] == [[10, 20], [30, 40], [50]]


@pytest.mark.spec("cano.T11")
def test_a_window_that_fails_fails_the_state_or_is_skipped() -> None:
    """Promise: by default the state fails and its cursor stays before the window; skipped ones are dropped."""
    lines = Lines(5, window=2)
    lines.fails = {30}
    log = MemoryLog()
    assert isinstance(failing(lines.machine.run(A(), store=log, id="run")), StateFailed)
    assert [row.blob for row in play(log.load("run")) if row.kind == "cursor"] == [b"2"]
    skipping = Lines(5, window=2, on_error="skip")
    skipping.fails = {30}
    play(skipping.machine.run(A()))
    assert [items for items, _ in skipping.windows] == [[10, 20], [50]]
    trying = Lines(5, window=2, on_error=Retry(3, first="1s"))
    trying.fails = {30}
    play(trying.machine.run(A()))
    assert [items for items, _ in trying.windows] == [[10, 20], [50]]


@pytest.mark.spec("cano.T11", "cano.T15")
def test_a_cancelled_stream_hands_over_what_it_has_read() -> None:
    """Promise: the partial window and its cursor are kept, so a resume reads nothing twice."""
    lines = Lines(9, window=4)
    lines.pause = 10.0
    log = MemoryLog()
    stop = asyncio.Event()

    async def run() -> None:
        task = asyncio.ensure_future(lines.machine.run(A(), store=log, id="run", cancel=stop))
        await asyncio.sleep(25)
        stop.set()
        with pytest.raises(RunCancelled):
            await task
        assert lines.windows == [([10, 20], False)]
        assert await lines.machine.resume("run", store=log) == End(9)

    play(run())
    assert [item for items, _ in lines.windows for item in items] == [n * 10 for n in range(1, 10)]
