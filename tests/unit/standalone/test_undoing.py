"""Sagas of standalone machines: what is undone, in which order, and what becomes of the log."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import CompensationFailed, Machine, Permanent, Retry, RunCancelled, StateFailed
from holdfast.errors import DeadlineExceeded, InvalidState, NotEncodable
from holdfast.testing.machines import MemoryLog, RecordingObserver
from tests.unit.authoring.machine.stage import (
    ONCE,
    A,
    B,
    Boom,
    C,
    Chain,
    D,
    End,
    FaultyLog,
    failing,
    kinds,
    play,
    timed,
)


@pytest.mark.spec("cano.S1", "cano.S2")
@pytest.mark.parametrize("k", range(4))
def test_a_failure_at_every_step_undoes_exactly_the_completed_prefix(k: int) -> None:
    """Promise: for all k, in reverse; the state that failed is not undone."""
    names = "ABCD"
    chain = Chain(fail=names[k])
    log = MemoryLog()
    failing(chain.machine.run(A(), store=log, id="run"))
    forward = list(names[: k + 1])
    assert chain.done == [*forward, *(f"undo {name}" for name in reversed(names[:k]))]


@pytest.mark.spec("cano.S1")
def test_an_undo_gets_what_its_state_returned_and_was_given() -> None:
    """Promise: also from the log of another process, where both are read back."""
    told: list[object] = []
    crashing = [True]
    machine = Machine[A, End]("parts", retry=ONCE)

    @machine.state
    async def a(s: A) -> B:
        return B(s.n * 2)

    @a.undo
    async def back(left: B, s: A) -> None:
        told.append((left, s))

    @machine.state
    async def b(s: B) -> End:
        if crashing:
            raise KeyboardInterrupt
        raise Boom

    log = MemoryLog()

    async def run() -> None:
        with pytest.raises(KeyboardInterrupt):
            await machine.run(A(21), store=log, id="run")
        crashing.clear()
        with pytest.raises(StateFailed):
            await machine.resume("run", store=log)

    asyncio.run(run())
    assert told == [(B(42), A(21))]


@pytest.mark.spec("cano.S3", "cano.S5")
def test_the_rollback_never_stops_early_and_keeps_what_it_could_not_undo() -> None:
    """Promise: one failing undo does not keep the others from running; its output is in the error."""
    chain = Chain(fail="D", undo_fails="B")
    log = MemoryLog()
    error = failing(chain.machine.run(A(), store=log, id="run"))
    assert isinstance(error, CompensationFailed)
    assert chain.done[-3:] == ["undo C", "undo B", "undo A"]
    assert [orphan.state for orphan in error.orphans] == ["B"]
    assert error.orphans[0].output == b'{"C":{"n":2}}'
    assert isinstance(error.errors[0], StateFailed)
    assert isinstance(error.errors[1], Boom)
    assert len(error.errors) == 2
    assert error.__cause__ is error.errors[0]


@pytest.mark.spec("cano.S3")
def test_an_undo_is_tried_under_its_own_policy_and_bounded_by_its_timeout() -> None:
    """Promise: three tries; one that hangs is cut off and counts as a try."""
    tries: list[int] = []
    machine = Machine[A, End]("policy", retry=ONCE)

    @machine.state
    async def a(s: A) -> B:
        return B()

    @a.undo(retry=Retry(3, first="1s"), timeout="5s")
    async def back(left: B, s: A) -> None:
        tries.append(len(tries))
        if len(tries) == 1:
            await asyncio.sleep(100)
        if len(tries) == 2:
            raise Boom

    @machine.state
    async def b(s: B) -> End:
        raise Boom

    async def run() -> BaseException:
        with pytest.raises(StateFailed) as caught:
            await machine.run(A())
        return caught.value

    _, seconds = timed(run())
    assert tries == [0, 1, 2]
    assert 5 < seconds < 10


@pytest.mark.spec("cano.S3")
@pytest.mark.parametrize(("policy", "tries"), [(None, 10), (Retry(2, first=0), 2)])
def test_an_undo_without_a_policy_is_tried_as_the_machine_says_or_ten_times(policy: Retry | None, tries: int) -> None:
    """Promise: an undo matters more than a step: it is not given up after one failure."""
    tried: list[int] = []
    machine = Machine[A, End]("default", retry=policy)

    @machine.state
    async def a(s: A) -> B:
        return B()

    @a.undo
    async def back(left: B, s: A) -> None:
        tried.append(1)
        raise Boom

    @machine.state
    async def b(s: B) -> End:
        raise Permanent("no")

    failing(machine.run(A()))
    assert len(tried) == tries


@pytest.mark.spec("cano.S4", "traps.A4")
def test_the_four_outcomes_of_the_log() -> None:
    """Promise: end: cleared. Nothing to undo: kept. Clean rollback: cleared, the error as it is. Dirty one: kept."""
    log = MemoryLog()
    play(Chain().machine.run(A(), store=log, id="ended"))
    failing(Chain(fail="B", undo="").machine.run(A(), store=log, id="nothing"))
    clean = failing(Chain(fail="D").machine.run(A(), store=log, id="clean"))
    dirty = failing(Chain(fail="D", undo_fails="A").machine.run(A(), store=log, id="dirty"))
    assert sorted(log.runs) == ["dirty", "nothing"]
    assert isinstance(clean, StateFailed)
    assert isinstance(clean.__cause__, Boom)
    assert isinstance(dirty, CompensationFailed)


@pytest.mark.spec("cano.S3", "cano.S4")
def test_a_dirty_rollback_goes_on_when_it_is_resumed() -> None:
    """Promise: only what was not undone is tried again; then the log is cleared and the first error is raised."""
    chain = Chain(fail="D", undo_fails="B")
    log = MemoryLog()
    failing(chain.machine.run(A(), store=log, id="run"))
    chain.done.clear()
    assert isinstance(failing(chain.machine.resume("run", store=log)), CompensationFailed)
    chain.undo_fails = ""
    error = failing(chain.machine.resume("run", store=log))
    assert isinstance(error, StateFailed)
    assert (error.state, error.type, error.path) == ("D", f"{Boom.__module__}.Boom", ("A", "B", "C", "D"))
    assert chain.done == ["undo B", "undo B"]
    assert log.runs == {}


@pytest.mark.spec("cano.S3", "traps.A2")
@pytest.mark.parametrize("crash_after", [9, 10, 11, 12])
def test_a_crash_in_the_rollback_goes_on_going_back(crash_after: int) -> None:
    """Promise: its beginning and each finished undo are rows; from there on nothing goes forward, nothing is undone
    twice that is written down."""
    chain = Chain(fail="D")
    log = MemoryLog()
    failing(chain.machine.run(A(), store=log, id="run", keep_log=True))
    rows = kinds(play(log.load("run")))
    assert [kind for _, kind, _, _ in rows[7:]] == ["rollback", "undone", "undone", "undone"]
    log.runs["run"] = {n: row for n, row in log.runs["run"].items() if n < crash_after}
    undone = [state for _, kind, state, _ in rows[:crash_after] if kind == "undone"]
    chain.done.clear()
    chain.fail = ""
    failing(chain.machine.resume("run", store=log))
    assert chain.done == [f"undo {name}" for name in "CBA" if name not in undone]
    assert log.runs == {}


@pytest.mark.spec("cano.S5")
def test_work_without_an_undo_in_this_machine_is_named_with_its_output() -> None:
    """Promise: a completion whose undo is gone is an orphan; its output is not lost."""
    log = MemoryLog()
    failing(Chain(fail="D", undo_fails="A").machine.run(A(), store=log, id="run"))
    later = Chain(undo="")
    error = failing(later.machine.resume("run", store=log))
    assert isinstance(error, CompensationFailed)
    assert error.orphans[0].state == "A"
    assert error.orphans[0].output == b'{"B":{"n":1}}'


@pytest.mark.spec("cano.S6", "cano.T6")
@pytest.mark.parametrize("wrong", ["a list", "an unknown class", "a value that does not encode"])
def test_a_result_that_cannot_be_kept_is_undone_all_the_same(wrong: str) -> None:
    """Promise: the state did its work, so its undo runs, with what it returned."""
    told: list[object] = []
    results: dict[str, Any] = {
        "a list": [B(), B()],
        "an unknown class": D(),
        "a value that does not encode": B(object()),  # type: ignore[arg-type]
    }
    machine = Machine[A, End]("inline", retry=ONCE, compensation_timeout="1ms")

    @machine.state
    async def a(s: A) -> B:
        return results[wrong]  # type: ignore[no-any-return]

    @a.undo
    async def back(left: B, s: A) -> None:
        await asyncio.sleep(1)  # not bound by the time for undoing
        told.append(left)

    @machine.state
    async def b(s: B) -> End:
        return End()

    error = failing(machine.run(A(), store=MemoryLog(), id="run"))
    assert isinstance(error, StateFailed)
    assert isinstance(error.__cause__, InvalidState | NotEncodable)
    assert "inline" in str(error)
    assert told == [results[wrong]]


@pytest.mark.spec("cano.S7")
def test_a_state_that_failed_is_named_as_one_that_may_have_acted() -> None:
    """Promise: it is not undone, and the error says so."""
    error = failing(Chain(fail="B").machine.run(A()))
    assert "B may have acted and is not undone" in str(error)


@pytest.mark.spec("cano.S8")
def test_undo_belongs_to_the_state_not_to_the_name_of_its_function() -> None:
    """Promise: two states whose functions share a name are undone each by its own."""
    told: list[str] = []
    machine = Machine[A, End]("names", retry=ONCE)

    def declare() -> None:
        @machine.state
        async def work(s: A) -> B:
            return B()

        @work.undo
        async def back(left: B, s: A) -> None:
            told.append("A")

    def declare_another() -> None:
        @machine.state
        async def work(s: B) -> C:
            return C()

        @work.undo
        async def back(left: C, s: B) -> None:
            told.append("B")

    declare()
    declare_another()

    @machine.state
    async def last(s: C) -> End:
        raise Boom

    failing(machine.run(A(), store=MemoryLog(), id="run"))
    assert told == ["B", "A"]


@pytest.mark.spec("cano.S9", "cano.T15")
def test_a_state_that_can_be_undone_is_never_cut_and_neither_is_the_rollback() -> None:
    """Promise: a cancel waits for its end, then undoes it, whole; a plain state is cut."""
    told: list[str] = []
    watcher = RecordingObserver()
    machine = Machine[A, End]("whole", retry=ONCE, observers=[watcher])

    @machine.state
    async def a(s: A) -> B:
        await asyncio.sleep(2)
        told.append("acted")
        return B()

    @a.undo
    async def back(left: B, s: A) -> None:
        await asyncio.sleep(2)
        told.append("undone")

    @machine.state
    async def b(s: B) -> End:
        told.append("never")
        return End()

    async def run() -> None:
        task = asyncio.ensure_future(machine.run(A(), store=MemoryLog(), id="run"))
        for delay in (1.0, 2.0):  # in the body, then in the rollback
            await asyncio.sleep(delay)
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    play(run())
    assert told == ["acted", "undone"]
    assert [event for event in watcher.events if event[0] == "cancelled"] == [("cancelled", "A")]


@pytest.mark.spec("cano.S9")
def test_a_total_timeout_does_not_cut_a_state_that_can_be_undone() -> None:
    """Promise: it ends, the timeout is honoured at the next boundary, and it is undone."""
    told: list[str] = []
    machine = Machine[A, End]("whole", retry=ONCE, timeout="5s")

    @machine.state
    async def a(s: A) -> B:
        await asyncio.sleep(10)
        told.append("acted")
        return B()

    @a.undo
    async def back(left: B, s: A) -> None:
        told.append("undone")

    @machine.state
    async def b(s: B) -> End:
        told.append("never")
        return End()

    assert isinstance(failing(machine.run(A())).__cause__, DeadlineExceeded)
    assert told == ["acted", "undone"]


@pytest.mark.spec("cano.S9", "cano.S10", "cano.T5")
@pytest.mark.parametrize(("limit", "end"), [("10s", 15), ("90s", 120)])
def test_a_total_timeout_cuts_plain_states_and_undoes_within_its_own_time(limit: str, end: float) -> None:
    """Promise: the error names the timeout at attempt 0; undoing has half the timeout, at most 30 s; what is left is an
    orphan."""
    chain = Chain(timeout="10s", undo="AB")
    hang = asyncio.sleep

    watcher = RecordingObserver()
    machine = Machine[A, End]("late", retry=ONCE, timeout=limit, observers=[watcher])
    told: list[str] = []

    @machine.state
    async def a(s: A) -> B:
        return B()

    @a.undo
    async def undo_a(left: B, s: A) -> None:
        told.append("A")

    @machine.state
    async def b(s: B) -> C:
        return C()

    @b.undo
    async def undo_b(left: C, s: B) -> None:
        await hang(100)

    @machine.state
    async def c(s: C) -> End:
        await hang(100)
        return End()

    assert play(chain.machine.run(A())) == End(4)

    async def run() -> CompensationFailed:
        with pytest.raises(CompensationFailed) as caught:
            await machine.run(A(), store=MemoryLog(), id="run")
        return caught.value

    error, seconds = timed(run())
    assert end - 0.1 < seconds < end + 0.2
    first = error.errors[0]
    assert isinstance(first, StateFailed)
    assert isinstance(first.__cause__, DeadlineExceeded)
    assert (first.state, first.attempt) == ("C", 0)
    assert [orphan.state for orphan in error.orphans] == ["B", "A"]
    assert all(isinstance(x, TimeoutError) for x in error.errors[1:])
    assert not told
    assert ("timed_out", "C") in watcher.events


@pytest.mark.spec("cano.T15", "cano.S2")
def test_cancel_stops_at_the_next_boundary_once_and_wins_over_the_timeout() -> None:
    """Promise: cooperative: the body ends its slice; then it is undone, `cancelled` is told once."""
    stop = asyncio.Event()
    watcher = RecordingObserver()
    machine = Machine[A, End]("stop", retry=ONCE, timeout="5s", observers=[watcher])
    told: list[str] = []

    @machine.state
    async def a(s: A) -> B:
        stop.set()
        stop.set()
        await asyncio.sleep(10)
        told.append("A")
        return B()

    @a.undo
    async def back(left: B, s: A) -> None:
        told.append("undo A")

    @machine.state
    async def b(s: B) -> End:
        told.append("B")
        return End()

    assert isinstance(failing(machine.run(A(), cancel=stop)), RunCancelled)
    assert told == ["A", "undo A"]
    assert [event for event in watcher.events if event[0] in {"cancelled", "timed_out"}] == [("cancelled", "B")]


def test_a_store_that_is_gone_does_not_keep_work_from_being_undone() -> None:
    """Promise: neither the beginning of the rollback nor its end can be written, and all is undone."""
    chain = Chain(fail="D")
    faulty = FaultyLog(kind="rollback", clear=True)
    assert isinstance(failing(chain.machine.run(A(), store=faulty, id="run")), StateFailed)
    assert chain.done[-3:] == ["undo C", "undo B", "undo A"]
