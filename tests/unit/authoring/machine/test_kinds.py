"""One body under its policy, circuit breakers, polls, timers and resources."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from holdfast import (
    Again,
    Breaker,
    LogRow,
    Machine,
    NotInRun,
    Permanent,
    Retry,
    RetryAfter,
    StateFailed,
    current,
    resource,
    sleep,
)
from holdfast.authoring.machine.breaker import Permit
from holdfast.errors import CircuitOpen, InvalidInput, InvalidState, NotAllowedHere
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
    """Promise: a body that hangs is dropped and tried again like any error, each time after the same time."""
    tries: list[int] = []
    machine = Machine[A, End]("limits")

    @machine.state(retry=Retry(3, first=0), timeout="5s")
    async def work(s: A) -> End:
        tries.append(1)
        if len(tries) < 3:
            await asyncio.sleep(100)
        await asyncio.sleep(4)
        return End()

    end, seconds = timed(machine.run(A()))
    assert end == End()
    assert 13.9 < seconds < 14.1


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
        least = (until - datetime.now(UTC)).total_seconds()
        assert max(0.0, least) <= seconds <= max(0.0, left)


@pytest.mark.spec("cano.T8")
def test_a_timer_may_follow_the_state() -> None:
    """Promise: a duration or an instant, from the state."""
    machine = Machine[A, End]("until", retry=ONCE)

    @machine.timer(lambda s: timedelta(seconds=s.n))
    async def wake(s: A) -> End:
        return End()

    _, seconds = timed(machine.run(A(30)))
    assert 29 < seconds < 31


# -- resources ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("cano.T14")
def test_resources_know_how_they_are() -> None:
    """Promise: each is asked; one whose check raises is unhealthy; the worst counts."""
    from holdfast.authoring.script.open_resources import worst

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
