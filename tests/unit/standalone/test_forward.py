"""A standalone run forward: what is recorded, when, and what never is."""

from __future__ import annotations

import asyncio
import logging

import pytest

from holdfast import Conflict, Join, LoggingObserver, LogRow, Machine, More, Observer, StateFailed
from holdfast.errors import InvalidInput, StoreError, UsageError
from holdfast.testing.machines import MemoryLog, RecordingObserver
from tests.unit.authoring.machine.stage import ONCE, A, B, C, Chain, End, FaultyLog, failing, kinds, play


@pytest.mark.spec("cano.F1")
def test_without_a_store_nothing_is_recorded_and_resume_is_refused() -> None:
    """Promise: a machine needs no store; resuming without one is an error that says so."""
    chain = Chain()
    assert play(chain.machine.run(A(1))) == End(5)
    assert chain.done == ["A", "B", "C", "D"]
    error = failing(chain.machine.resume("run-1", store=None))  # type: ignore[arg-type]
    assert isinstance(error, UsageError)
    assert "store" in str(error)


@pytest.mark.spec("cano.F2")
def test_a_store_without_an_id_is_refused_before_any_body() -> None:
    """Promise: what could not be found again is not begun."""
    chain = Chain()
    error = failing(chain.machine.run(A(), store=MemoryLog()))
    assert isinstance(error, InvalidInput)
    assert "id" in str(error)
    assert not chain.done


@pytest.mark.spec("cano.F3", "cano.F4", "cano.K5")
def test_every_state_is_one_row_written_before_its_body() -> None:
    """Promise: start, work and end are three dense rows; each is durable before the body it announces runs."""
    machine = Machine[A, End]("three", retry=ONCE)
    log = MemoryLog()
    seen: list[list[str]] = []

    @machine.state
    async def start(s: A) -> B:
        seen.append([row.state for row in await log.load("run")])
        return B(1)

    @machine.state
    async def work(s: B) -> End:
        seen.append([row.state for row in await log.load("run")])
        return End(2)

    assert play(machine.run(A(), store=log, id="run", keep_log=True)) == End(2)
    assert kinds(play(log.load("run"))) == [
        (0, "entry", "A", "start"),
        (1, "entry", "B", "work"),
        (2, "entry", "End", ""),
    ]
    assert seen == [["A"], ["A", "B"]]


@pytest.mark.spec("cano.F4", "cano.F5", "cano.F6", "cano.F9")
def test_a_split_is_one_row_and_a_router_none() -> None:
    """Promise: whatever the fan-out a split is one row, without a task; a router is entered and leaves no trace."""
    watcher = RecordingObserver()
    machine = Machine[A, End]("fan", observers=[watcher], retry=ONCE)
    log = MemoryLog()

    @machine.router
    def route(s: A) -> B | C:
        return B(7) if s.n else C()

    async def left(s: B) -> int:
        return s.n

    async def right(s: B) -> int:
        return s.n + 1

    @machine.split(left, right, join=Join.all())
    async def both(s: B, found: list[int]) -> C:
        return C(sum(found))

    @machine.state
    async def last(s: C) -> End:
        return End(s.n)

    assert play(machine.run(A(1), store=log, id="run", keep_log=True)) == End(15)
    assert kinds(play(log.load("run"))) == [(0, "entry", "B", ""), (1, "entry", "C", "last"), (2, "entry", "End", "")]
    watcher.assert_path("A", "B", "C", "End")
    assert [event for event in watcher.events if event[0] == "checkpoint"] == [("checkpoint", n) for n in range(3)]


@pytest.mark.spec("cano.F7", "cano.F13", "cano.S1")
def test_a_state_that_can_be_undone_writes_what_it_returned() -> None:
    """Promise: its completion is a second row with the output, of which observers hear; a plain state has none."""
    watcher = RecordingObserver()
    chain = Chain(undo="A", observers=[watcher])
    log = MemoryLog()
    play(chain.machine.run(A(1), store=log, id="run", keep_log=True))
    rows = play(log.load("run"))
    assert kinds(rows)[:3] == [(0, "entry", "A", "a"), (1, "completion", "A", "a"), (2, "entry", "B", "b")]
    assert rows[1].blob == b'{"B":{"n":2}}'
    assert [row.kind for row in rows[2:]] == ["entry"] * 4
    assert [event[1] for event in watcher.events if event[0] == "checkpoint"] == [row.sequence for row in rows]


@pytest.mark.spec("cano.F8", "cano.T10")
def test_a_stepped_state_writes_each_cursor_before_the_next_call() -> None:
    """Promise: entry, three cursors, exit: five rows; the last answer writes none."""
    machine = Machine[A, End]("steps", retry=ONCE)
    log = MemoryLog()
    seen: list[int] = []

    @machine.stepped
    async def step(s: A, cursor: int | None) -> More[int] | End:
        seen.append(len(await log.load("run")))
        at = cursor or 0
        return More(at + 1) if at < 3 else End(at)

    assert play(machine.run(A(), store=log, id="run", keep_log=True)) == End(3)
    rows = play(log.load("run"))
    assert [row.kind for row in rows] == ["entry", "cursor", "cursor", "cursor", "entry"]
    assert [row.blob for row in rows[1:4]] == [b"1", b"2", b"3"]
    assert seen == [1, 2, 3, 4]


@pytest.mark.spec("cano.F10", "cano.S4", "traps.A4")
def test_the_log_is_cleared_at_the_end_and_a_failing_clear_is_only_told() -> None:
    """Promise: a finished run leaves no rows; that clearing fails is told and never fatal."""
    log = MemoryLog()
    play(Chain().machine.run(A(), store=log, id="run"))
    assert log.runs == {}
    watcher = RecordingObserver()
    faulty = FaultyLog(clear=True)
    assert play(Chain(observers=[watcher]).machine.run(A(), store=faulty, id="run")) == End(4)
    assert ("clear_failed",) in watcher.events
    assert len(faulty.runs["run"]) == 8


@pytest.mark.spec("cano.F11", "cano.S2")
@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (0, []),
        (2, ["A", "undo A"]),  # the entry of B: its body does not run
        (3, ["A", "B", "undo B", "undo A"]),  # the completion of B: it ran, and is undone
    ],
)
def test_a_row_that_cannot_be_written_fails_the_run_and_undoes(at: int, expected: list[str]) -> None:
    """Promise: the body behind an unwritten row never runs; what completed is undone, also what was not written."""
    chain = Chain()
    error = failing(chain.machine.run(A(), store=FaultyLog(at=at), id="run"))
    assert isinstance(error, StateFailed)
    assert isinstance(error.__cause__, StoreError)
    assert chain.done == expected


@pytest.mark.spec("cano.F12", "traps.A4")
def test_a_fresh_run_over_a_leftover_log_is_a_conflict_that_leaves_it_intact() -> None:
    """Promise: neither forward nor back: the log is as it was, and the error says what to do."""
    chain = Chain(fail="D")
    log = MemoryLog()
    log.runs["run"] = {0: LogRow(0, "entry", "A", "a", 1, "", b'{"n":0}')}
    before = dict(log.runs["run"])
    error = failing(chain.machine.run(A(), store=log, id="run"))
    assert isinstance(error, Conflict)
    assert "resume" in str(error)
    assert log.runs["run"] == before
    assert not chain.done


@pytest.mark.spec("cano.F12")
def test_of_two_racing_resumes_one_wins_and_the_other_undoes_nothing() -> None:
    """Promise: whoever loses a row to another process stops; it does not take back what the other builds on."""
    chain = Chain(fail="D")
    log = MemoryLog()

    async def race() -> list[object]:
        chain.undo_fails = "ABC"  # keeps the log of the first failure
        with pytest.raises(Exception, match="undo"):
            await chain.machine.run(A(), store=log, id="run")
        rows = {n: row for n, row in log.runs["run"].items() if row.kind in {"entry", "completion"}}
        log.runs["run"] = rows
        chain.fail = chain.undo_fails = ""
        chain.done.clear()
        resumes = (chain.machine.resume("run", store=log, keep_log=True) for _ in range(2))
        return list(await asyncio.gather(*resumes, return_exceptions=True))

    outcomes = play(race())
    assert [x for x in outcomes if x == End(4)]
    assert [x for x in outcomes if isinstance(x, Conflict)]
    assert set(chain.done) == {"D"}  # without a lease both may try; neither undoes


@pytest.mark.spec("cano.F13", "cano.T19")
def test_observers_hear_of_one_state_in_order() -> None:
    """Promise: entered, checkpoint, started, retry, succeeded; then the next state."""
    watcher = RecordingObserver()
    machine = Machine[A, End]("watched", observers=[watcher])
    tries: list[int] = []

    @machine.state(retry=2)
    async def work(s: A) -> End:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("once")
        return End()

    play(machine.run(A(), store=MemoryLog(), id="run"))
    assert watcher.events == [
        ("state_entered", "A"),
        ("checkpoint", 0),
        ("task_started", "A", "work", 1),
        ("retry", "A", 1),
        ("task_started", "A", "work", 2),
        ("task_succeeded", "A", "work", 2),
        ("state_entered", "End"),
        ("checkpoint", 1),
    ]


@pytest.mark.spec("cano.F13")
def test_the_logging_observer_tells_checkpoints_at_debug_and_resumes_at_info(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Promise: `logging` hears of both, at those levels."""
    chain = Chain(fail="B", undo="", observers=[LoggingObserver()])
    log = MemoryLog()
    with caplog.at_level(logging.DEBUG, logger="holdfast.machine.observer"):
        failing(chain.machine.run(A(), store=log, id="run"))
        chain.fail = ""
        play(chain.machine.resume("run", store=log))
    said = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert ("DEBUG", "run run: row 0 is durable") in said
    assert ("INFO", "run run: resumed after row 1") in said


@pytest.mark.spec("cano.T4", "cano.T19")
def test_an_observer_that_raises_never_hurts_the_run(caplog: pytest.LogCaptureFixture) -> None:
    """Promise: it is logged, and the run and the other observers go on."""

    class Broken(Observer):
        def state_entered(self, run_id: str, state: str) -> None:
            raise RuntimeError("no")

    watcher = RecordingObserver()
    chain = Chain(observers=[Broken(), watcher])
    assert play(chain.machine.run(A())) == End(4)
    watcher.assert_path("A", "B", "C", "D", "End")
    assert "observer" in caplog.text
