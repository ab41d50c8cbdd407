"""The kinds of states, each with its own way of working."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from holdfast import (
    Again,
    Breaker,
    ItemOutcome,
    Join,
    LogRow,
    Machine,
    More,
    NotInRun,
    Permanent,
    Retry,
    RetryAfter,
    RunCancelled,
    StateFailed,
    Window,
    current,
    resource,
    sleep,
)
from holdfast.authoring.machine.breaker import Permit
from holdfast.errors import CircuitOpen, InvalidInput, InvalidState, NotAllowedHere, SplitFailed
from holdfast.testing.machines import MemoryLog, RecordingObserver
from tests.unit.authoring.machine.stage import ONCE, A, B, Boom, C, End, failing, play, timed


def state_of(breaker: Breaker) -> str:
    """Asked anew each time: it changes with time."""
    return breaker.state


# -- one body under its policy -----------------------------------------------------------------------------------------


@pytest.mark.spec("cano.T1", "cano.T5")
def test_a_body_is_tried_under_its_policy_and_the_error_says_which_attempt() -> None:
    """Promise: attempts count the first try; the last error is the cause."""
    tries: list[int] = []
    machine = Machine[A, End]("tries")

    @machine.state(retry=Retry(3, first="1s"))
    async def work(s: A) -> End:
        tries.append(current().attempt)
        raise Boom(len(tries))

    error = failing(machine.run(A()))
    assert isinstance(error, StateFailed)
    assert (error.attempt, tries) == (3, [1, 2, 3])
    assert isinstance(error.__cause__, Boom)
    assert error.__cause__.args == (3,)


@pytest.mark.spec("cano.T1")
def test_permanent_declared_and_wrong_code_are_not_tried_again() -> None:
    """Promise: Permanent, raises= and UsageError end the tries; a declared one of the machine leaves as itself."""
    tries: list[str] = []
    machine = Machine[A, End]("final", raises=Boom)
    errors: list[Exception] = [Permanent("p"), Boom("b"), NotAllowedHere("n")]

    @machine.state
    async def work(s: A) -> End:
        tries.append("x")
        raise errors[s.n]

    assert isinstance(failing(machine.run(A(0))), StateFailed)
    assert isinstance(failing(machine.run(A(1))), Boom)
    assert isinstance(failing(machine.run(A(2))), StateFailed)
    assert len(tries) == 3


def test_retry_after_waits_at_least_that_long() -> None:
    """Promise: as for steps."""
    tries: list[int] = []
    machine = Machine[A, End]("later")

    @machine.state(retry=Retry(2, first="1s"))
    async def work(s: A) -> End:
        tries.append(1)
        if len(tries) == 1:
            raise RetryAfter("1m")
        return End()

    _, seconds = timed(machine.run(A()))
    assert 60 <= seconds < 61


@pytest.mark.spec("cano.T2")
def test_each_attempt_has_a_time_limit_of_its_own() -> None:
    """Promise: a body that hangs is dropped and tried again like any error."""
    tries: list[int] = []
    machine = Machine[A, End]("limits")

    @machine.state(retry=Retry(2, first="1s"), timeout="5s")
    async def work(s: A) -> End:
        tries.append(1)
        if len(tries) == 1:
            await asyncio.sleep(100)
        await asyncio.sleep(4)
        return End()

    end, seconds = timed(machine.run(A()))
    assert end == End()
    assert 9.4 < seconds < 10.1


@pytest.mark.spec("cano.T3")
def test_an_open_circuit_calls_no_body_and_uses_no_attempt() -> None:
    """Promise: after five failures in a row the body rests; then one probe decides."""
    calls: list[int] = []
    good: list[bool] = []
    watcher = RecordingObserver()
    breaker = Breaker(5, reset="30s")
    machine = Machine[A, End]("circuit", observers=[watcher])

    @machine.state(retry=ONCE, breaker=breaker)
    async def work(s: A) -> End:
        calls.append(1)
        if not good:
            raise Boom
        return End()

    async def run() -> None:
        for _ in range(5):
            with pytest.raises(StateFailed):
                await machine.run(A())
        with pytest.raises(StateFailed) as caught:
            await machine.run(A())
        assert isinstance(caught.value.__cause__, CircuitOpen)
        assert caught.value.attempt == 0
        assert (len(calls), state_of(breaker)) == (5, "open")
        await asyncio.sleep(30)
        assert state_of(breaker) == "half open"
        with pytest.raises(StateFailed):
            await machine.run(A())  # the probe fails: open again
        assert state_of(breaker) == "open"
        await asyncio.sleep(30)
        good.append(True)
        assert await machine.run(A()) == End()
        assert state_of(breaker) == "closed"

    play(run())
    assert ("circuit_open", "A") in watcher.events


@pytest.mark.spec("cano.T3")
def test_a_circuit_counts_probes_and_ignores_outcomes_of_an_earlier_epoch() -> None:
    """Promise: half open needs all its probes; what began before the circuit opened says nothing about it."""

    async def run() -> None:
        breaker = Breaker(1, reset="1s", probes=2)
        old = breaker.ask()
        breaker.failed(breaker.ask())
        with pytest.raises(CircuitOpen):
            breaker.ask()
        breaker.succeeded(old)
        assert state_of(breaker) == "open"
        await asyncio.sleep(1)
        first, second = breaker.ask(), breaker.ask()
        with pytest.raises(CircuitOpen):
            breaker.ask()
        breaker.succeeded(first)
        assert state_of(breaker) == "half open"
        breaker.succeeded(second)
        assert state_of(breaker) == "closed"
        breaker.failed(Permit(-1))
        assert state_of(breaker) == "closed"

    play(run())
    with pytest.raises(InvalidInput):
        Breaker(0)


@pytest.mark.spec("cano.T4")
def test_exit_in_a_body_fails_the_state_and_not_the_process() -> None:
    """Promise: SystemExit is a failure like any other, in plain states, undoable ones and branches."""
    machine = Machine[A, End]("exits", retry=ONCE)

    @machine.state
    async def a(s: A) -> B:
        if s.n == 0:
            raise SystemExit(3)
        return B(s.n)

    @a.undo
    async def back(left: B, s: A) -> None: ...

    async def branch(s: B) -> int:
        raise SystemExit(4)

    @machine.split(branch)
    async def b(s: B, found: list[int]) -> End:
        return End()

    assert "SystemExit: 3" in str(failing(machine.run(A(0))))
    assert "SystemExit: 4" in str(failing(machine.run(A(1))))


@pytest.mark.spec("cano.T6", "cano.T13")
def test_what_is_no_state_is_refused_with_state_and_machine() -> None:
    """Promise: a list, a stranger or None from a body or a router, and a stranger at the start."""
    machine = Machine[A, End]("strict", retry=ONCE)
    answers: list[Any] = [[B(), B()], C(), None]

    @machine.state
    async def a(s: A) -> B | End:
        return answers[s.n] if s.n < 3 else B(s.n)

    @machine.router
    def b(s: B) -> End:
        return [End()]  # type: ignore[return-value]

    for n in range(4):
        error = failing(machine.run(A(n), store=MemoryLog(), id="run"))
        assert isinstance(error, StateFailed)
        assert isinstance(error.__cause__, InvalidState)
        assert "strict" in str(error)
    assert isinstance(failing(machine.run(C())), InvalidState)  # type: ignore[arg-type]


@pytest.mark.spec("cano.T13")
def test_a_machine_that_begins_at_its_end_ends_there() -> None:
    """Promise: no body runs."""
    machine = Machine[A | End, End]("short", retry=ONCE)

    @machine.state
    async def a(s: A) -> End:
        return End()

    assert play(machine.run(End(7))) == End(7)


def test_script_verbs_in_a_state_are_refused_with_advice() -> None:
    """Promise: sleep() in a .state body says `.script`; in a .script body of a standalone run it is refused too."""
    machine = Machine[A, End]("verbs", retry=ONCE)

    @machine.state
    async def a(s: A) -> B:
        if s.n:
            await sleep("1s")
        return B()

    @machine.script
    async def b(s: B) -> End:
        await sleep("1s")
        return End()

    refused = failing(machine.run(A(1)))
    assert isinstance(refused.__cause__, NotAllowedHere)
    assert ".script" in str(refused)
    alone = failing(machine.run(A(0)))
    assert isinstance(alone.__cause__, NotAllowedHere | NotInRun)


def test_a_sync_body_runs_in_a_thread_with_its_surroundings() -> None:
    """Promise: `def` handlers and their resources work."""

    @resource
    async def shelf() -> AsyncIterator[str]:
        yield "B7"

    machine = Machine[A, End]("sync", retry=ONCE)
    seen: list[object] = []

    @machine.state
    def a(s: A) -> End:
        seen.extend([shelf(), current().workflow])
        return End(s.n)

    assert asyncio.run(machine.run(A(4))) == End(4)
    assert seen == ["B7", "sync"]


# -- splits ------------------------------------------------------------------------------------------------------------


def split_of(join: Join, outcomes: list[float], **options: Any) -> tuple[Machine[A, End], list[str]]:
    """Branches that take that many seconds; a negative number fails after it."""
    machine = Machine[A, End]("split", retry=ONCE)
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
    assert "and 2 more" in str(failing(machine.run(A())))


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


# -- poll, timer -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("cano.T7")
def test_a_poll_asks_again_after_its_delay_and_bears_errors_in_a_row() -> None:
    """Promise: Again resets the count; one error more than borne fails."""
    answers: list[Any] = []
    machine = Machine[A, End]("poll")

    @machine.poll(errors=2)
    async def ready(s: A) -> Again | End:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    answers[:] = [Boom(), Boom(), Again("10s"), Boom(), Boom(), Again("5s"), End(1)]
    end, seconds = timed(machine.run(A()))
    assert end == End(1)
    assert 45 > seconds >= 35
    answers[:] = [Again("1s"), Boom(), Boom(), Boom(), End()]
    assert isinstance(failing(machine.run(A())), StateFailed)
    assert answers == [End()]


@pytest.mark.spec("cano.T7")
def test_a_poll_is_bounded_by_its_timeout_and_fails_fast_by_default() -> None:
    """Promise: the time is for all of it."""
    machine = Machine[A | B, End]("bounded")

    @machine.poll(timeout="1m")
    async def ready(s: A) -> Again | End:
        return Again("10s")

    calls: list[int] = []

    @machine.poll
    async def broken(s: B) -> Again | End:
        calls.append(1)
        raise Boom

    error = failing(machine.run(A()))
    assert isinstance(error, StateFailed)
    assert isinstance(error.__cause__, TimeoutError)
    failing(machine.run(B()))
    assert calls == [1]


@pytest.mark.spec("cano.T8")
def test_a_resumed_timer_waits_only_the_rest() -> None:
    """Promise: its end is a row; after a crash only what is left is slept; an instant in the past not at all."""
    machine = Machine[A, End]("timer", retry=ONCE)

    @machine.timer("1h")
    async def wake(s: A) -> End:
        return End(1)

    log = MemoryLog()
    end, seconds = timed(machine.run(A(), store=log, id="run", keep_log=True))
    assert end == End(1)
    assert 3599 < seconds < 3601
    for left in (60.0, -5.0):
        until = datetime.now(UTC) + timedelta(seconds=left)
        log.runs["run"] = {
            0: LogRow(0, "entry", "A", "wake", 1, "", b'{"n":0}'),
            1: LogRow(1, "cursor", "A", "wake", 1, "", msgspec.json.encode(until)),
        }
        _, seconds = timed(machine.resume("run", store=log))
        assert max(0.0, left) - 5 < seconds <= max(0.0, left)


@pytest.mark.spec("cano.T8")
def test_a_timer_may_follow_the_state() -> None:
    """Promise: a duration or an instant, from the state."""
    machine = Machine[A, End]("until", retry=ONCE)

    @machine.timer(lambda s: timedelta(seconds=s.n))
    async def wake(s: A) -> End:
        return End()

    _, seconds = timed(machine.run(A(30)))
    assert 29 < seconds < 31


# -- stepped, batch, stream --------------------------------------------------------------------------------------------


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


# -- resources ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("cano.T14")
def test_resources_know_how_they_are() -> None:
    """Promise: each is asked; one whose check raises is unhealthy; the worst counts."""
    from holdfast.authoring.script.opened import worst

    @resource
    async def fine() -> AsyncIterator[int]:
        yield 1

    @resource
    async def slow() -> AsyncIterator[int]:
        yield 2

    @slow.health
    async def how_slow(value: int) -> str:
        return "degraded"

    @resource
    async def broken() -> AsyncIterator[int]:
        yield 3

    @broken.health
    def how_broken(value: int) -> bool:
        raise Boom

    machine = Machine[A, End]("health", resources=[fine, slow, broken])

    @machine.state
    async def a(s: A) -> End:
        return End()

    found = play(machine.health())
    assert found == {"fine": "healthy", "slow": "degraded", "broken": "unhealthy"}
    assert worst(found) == "unhealthy"
    assert worst({"slow": "degraded", "fine": "healthy"}) == "degraded"
    assert worst({}) == "healthy"
