"""Splits: joins, bulkheads, time limits, and what becomes of branches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from holdfast import (
    Join,
    Machine,
    Observer,
    RunCancelled,
    StateFailed,
)
from holdfast.errors import InvalidInput, SplitFailed
from holdfast.testing.machines import RecordingObserver
from tests.unit.authoring.machine.stage import ONCE, A, Boom, End, failing, play, timed


def split_of(
    join: Join, outcomes: list[float], observers: Sequence[Observer] = (), **options: Any
) -> tuple[Machine[A, End], list[str]]:
    """Branches that take that many seconds; a negative number fails after it."""
    machine = Machine[A, End]("split", retry=ONCE, observers=observers)
    told: list[str] = []

    def branch(index: int, seconds: float) -> Any:
        async def run(s: A) -> int:
            told.append(f"began {index}")
            try:
                await asyncio.sleep(abs(seconds))
            except asyncio.CancelledError:
                told.append(f"stopped {index}")
                raise
            if seconds < 0:
                raise Boom(index)
            return index

        run.__name__ = f"branch{index}"
        return run

    @machine.split(*(branch(index, seconds) for index, seconds in enumerate(outcomes)), join=join, **options)
    async def joined(s: A, found: list[int]) -> End:
        told.append(f"joined {found}")
        return End(len(found))

    return machine, told


@pytest.mark.spec("cano.T12")
@pytest.mark.parametrize(
    ("join", "outcomes", "found", "seconds"),
    [
        (Join.all(), [3, 1, 2], [0, 1, 2], 3),
        (Join.all(), [], [], 0),
        (Join.any(), [3, 1, 2], [1], 1),
        (Join.any(), [-1, -2, 3], [2], 3),
        (Join.quorum(2), [3, 1, 2], [1, 2], 2),
        (Join.percentage(0.5), [3, 1, 2, 4], [1, 2], 2),
        (Join.percentage(0.1), [3, 1], [1], 1),
        (Join.percentage(0.5), [3, 1, 2], [1, 2], 2),
        (Join.partial(2), [-1, 2, 3, 9], [1, 2], 3),
        (Join.partial_timeout("5s"), [1, 9, -2], [0], 5),
        (Join.partial_timeout("5s"), [1, 2], [0, 1], 2),
        (Join.partial_timeout("5s"), [-1, 9], [], 5),
    ],
)
def test_a_join_gets_what_it_needs_and_stops_the_rest(
    join: Join, outcomes: list[float], found: list[int], seconds: float
) -> None:
    """Promise: results in the order of the branches; all but `all` stop the rest once it is decided."""
    machine, told = split_of(join, outcomes)
    _, took = timed(machine.run(A()))
    assert told[-1] == f"joined {found}"
    assert seconds <= took < seconds + 0.1


@pytest.mark.spec("cano.T12")
@pytest.mark.parametrize(
    ("join", "outcomes", "seconds"),
    [
        (Join.all(), [-1, 5], 5),
        (Join.any(), [-1, -2], 2),
        (Join.quorum(2), [-1, -2, 9], 2),
        (Join.partial_timeout("5s"), [9, 9], 5),
    ],
)
def test_a_join_that_cannot_be_met_fails_with_the_first_errors(
    join: Join, outcomes: list[float], seconds: float
) -> None:
    """Promise: as soon as it is certain; `all` waits for the others."""
    machine, told = split_of(join, outcomes)

    async def run() -> BaseException:
        with pytest.raises(StateFailed) as caught:
            await machine.run(A())
        return caught.value

    error, took = timed(run())
    assert isinstance(error.__cause__, SplitFailed)
    assert ("Boom" in str(error)) == any(x < 0 for x in outcomes)
    assert seconds <= took < seconds + 0.1
    assert not any(word.startswith("joined") for word in told)


@pytest.mark.spec("cano.T12")
def test_a_split_names_three_errors_and_counts_the_rest() -> None:
    """Promise: an error of a hundred branches stays readable."""
    machine, _ = split_of(Join.any(), [-1.0] * 5)
    said = str(failing(machine.run(A())))
    assert [f"Boom: {branch}" in said for branch in range(5)] == [True] * 3 + [False] * 2
    assert "and 2 more" in said


@pytest.mark.spec("cano.T19")
def test_a_branch_that_is_no_longer_needed_ends_in_silence() -> None:
    """Promise: observers hear of no failure of a branch that is stopped because the join has what it needs."""
    watcher = RecordingObserver()
    machine, told = split_of(Join.any(), [3, 1], observers=[watcher])
    play(machine.run(A()))
    assert "stopped 0" in told
    assert [event for event in watcher.events if event[0] == "task_failed"] == []


@pytest.mark.spec("cano.T12", "cano.T2")
def test_a_timeout_of_a_split_is_an_error_and_a_bulkhead_bounds_it() -> None:
    """Promise: the time is for the whole split; at most so many branches at once."""
    machine, _ = split_of(Join.all(), [9, 9], timeout="2s")
    assert isinstance(failing(machine.run(A())).__cause__, TimeoutError)
    machine, told = split_of(Join.all(), [1, 1, 1, 1], bulkhead=2)
    _, seconds = timed(machine.run(A()))
    assert 2 <= seconds < 2.1
    assert told[:2] == ["began 0", "began 1"]


@pytest.mark.spec("cano.T12")
def test_joins_that_cannot_be_are_refused_where_they_are_written() -> None:
    """Promise: quorum 0, a share outside (0, 1]: an error at once."""
    cases: list[tuple[Callable[[Any], Join], Any]] = [
        (Join.quorum, 0),
        (Join.percentage, 0),
        (Join.percentage, 1.5),
        (Join.partial, -1),
        (Join.quorum, True),
    ]
    for make, wrong in cases:
        with pytest.raises(InvalidInput):
            make(wrong)


@pytest.mark.spec("cano.T15", "cano.T19")
def test_a_cancel_in_the_middle_of_a_split_stops_its_branches() -> None:
    """Promise: at once, and each branch that had begun is told as failed, so that gauges come out even."""
    watcher = RecordingObserver()
    machine = Machine[A, End]("cut", retry=ONCE, observers=[watcher])
    stop = asyncio.Event()

    async def slow(s: A) -> int:
        await asyncio.sleep(100)
        return 1

    async def sets(s: A) -> int:
        await asyncio.sleep(1)
        stop.set()
        return 2

    @machine.split(slow, sets)
    async def joined(s: A, found: list[int]) -> End:
        return End()

    async def run() -> None:
        with pytest.raises(RunCancelled):
            await machine.run(A(), cancel=stop)

    _, seconds = timed(run())
    assert seconds < 2
    assert ("task_failed", "A", "slow[0]", 1) in watcher.events
    assert ("task_succeeded", "A", "sets[1]", 1) in watcher.events
