"""Resuming: where a run goes on, what runs again, and what never does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from holdfast import LogRow, Machine, More, RunCancelled, RunNotFound, StateFailed, resource
from holdfast.core.machine_history import decode_log_row, encode_log_row, rehydrate
from holdfast.errors import CorruptJournal, InvalidState, StoreError, VersionMismatch
from holdfast.testing.machines import MemoryLog, RecordingObserver
from tests.unit.authoring.machine.stage import ONCE, A, B, C, Chain, End, failing, kinds, play


def crash(log: MemoryLog, keep: int) -> None:
    """What a crash after `keep` rows leaves behind."""
    log.runs["run"] = {n: row for n, row in log.runs["run"].items() if n < keep}


def walked(**options: object) -> tuple[Chain, MemoryLog]:
    """A chain that ran to its end, with all its rows."""
    chain = Chain(**options)  # type: ignore[arg-type]
    log = MemoryLog()
    play(chain.machine.run(A(), store=log, id="run", keep_log=True))
    chain.done.clear()
    return chain, log


@pytest.mark.spec("cano.Z1", "cano.Z2", "traps.A1")
def test_a_resumed_run_enters_its_last_state_again() -> None:
    """Promise: the body there runs again, those before it never; the entry is a new row, and the sequence goes on."""
    chain, log = walked()
    crash(log, 5)  # A and B done, C entered
    assert play(chain.machine.resume("run", store=log, keep_log=True)) == End(4)
    assert chain.done == ["C", "D"]
    rows = play(log.load("run"))
    assert kinds(rows)[4:7] == [(4, "entry", "C", "c"), (5, "entry", "C", "c"), (6, "completion", "C", "c")]
    assert [row.sequence for row in rows] == list(range(len(rows)))


@pytest.mark.spec("cano.Z2", "traps.A1", "cano.Z1")
def test_a_state_that_had_finished_runs_again_too() -> None:
    """Promise: a completion without the next entry is no shortcut: the body at the resume point runs again."""
    chain, log = walked()
    crash(log, 4)  # B completed, C not entered
    play(chain.machine.resume("run", store=log))
    assert chain.done == ["B", "C", "D"]


@pytest.mark.spec("cano.Z3", "cano.F10")
def test_a_finished_log_gives_its_end_at_once() -> None:
    """Promise: no body runs, nothing is appended, and a clear that had failed is tried again."""
    chain, log = walked()
    before = dict(log.runs["run"])
    assert play(chain.machine.resume("run", store=log, keep_log=True)) == End(4)
    assert log.runs["run"] == before
    assert play(chain.machine.resume("run", store=log)) == End(4)
    assert not chain.done
    assert log.runs == {}


@pytest.mark.spec("cano.Z4", "cano.T14")
def test_resources_wrap_a_resumed_run() -> None:
    """Promise: opened before anything, closed on every path; if they cannot be opened the log is untouched."""
    told: list[str] = []
    fails: list[str] = []
    watcher = RecordingObserver()

    @resource
    async def first() -> AsyncIterator[str]:
        told.append("open first")
        yield "first"
        told.append("close first")

    @resource
    async def second() -> AsyncIterator[str]:
        if fails:
            raise OSError("no second")
        told.append("open second")
        yield "second"
        told.append("close second")

    machine = Machine[A, End]("wrapped", retry=ONCE, resources=[first, second], observers=[watcher])

    @machine.state
    async def work(s: A) -> End:
        told.append(first() + second())
        raise ValueError("no")

    log = MemoryLog()
    failing(machine.run(A(), store=log, id="run"))
    assert told == ["open first", "open second", "firstsecond", "close second", "close first"]
    told.clear()
    failing(machine.resume("run", store=log))
    assert told == ["open first", "open second", "firstsecond", "close second", "close first"]
    before, told[:] = dict(log.runs["run"]), []
    fails.append("second")
    watcher.events.clear()
    assert isinstance(failing(machine.resume("run", store=log)), OSError)
    assert told == ["open first", "close first"]
    assert log.runs["run"] == before
    assert not watcher.events


@pytest.mark.spec("cano.Z5", "cano.F9", "cano.K8")
def test_what_cannot_be_resumed_says_why() -> None:
    """Promise: no rows, an unknown label, a store that fails, a corrupt log: each its own error, nothing runs."""
    chain, log = walked()
    assert isinstance(failing(chain.machine.resume("nobody", store=log)), RunNotFound)
    log.runs["strange"] = {0: LogRow(0, "entry", "Nowhere", "x", 1, "", b"{}")}
    error = failing(chain.machine.resume("strange", store=log))
    assert isinstance(error, InvalidState)
    assert "Nowhere" in str(error)
    assert "chain" in str(error)

    class Unreadable(MemoryLog):
        async def load(self, run_id: str) -> list[LogRow]:
            raise OSError("gone")

    assert isinstance(failing(chain.machine.resume("run", store=Unreadable())), StoreError)
    log.runs["gap"] = {n: row for n, row in log.runs["run"].items() if n != 2}
    error = failing(chain.machine.resume("gap", store=log))
    assert isinstance(error, CorruptJournal)
    assert "gap" in str(error)
    assert "row 2" in str(error)
    assert not chain.done


@pytest.mark.spec("cano.Z5", "cano.K5", "cano.K8")
def test_a_log_of_another_version_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    """Promise: the last row decides; older rows of other versions are named in a warning; no version is version ""."""
    chain = Chain(fail="B", undo="", version="1")
    log = MemoryLog()
    failing(chain.machine.run(A(), store=log, id="run"))
    newer = Chain(undo="", version="2")
    error = failing(newer.machine.resume("run", store=log))
    assert isinstance(error, VersionMismatch)
    assert (error.stored, error.expected) == ("1", "2")
    last = max(log.runs["run"])
    row = log.runs["run"][last]
    log.runs["run"][last + 1] = LogRow(last + 1, row.kind, row.state, row.task, row.visit, "2", row.blob)
    with caplog.at_level(logging.WARNING):
        assert play(newer.machine.resume("run", store=log)) == End(4)
    assert "'1'" in caplog.text
    unversioned = decode_log_row(b'{"sequence":0,"kind":"entry","state":"A"}')
    assert unversioned.version == ""


@pytest.mark.spec("cano.Z6", "cano.S2")
def test_a_later_failure_undoes_the_work_of_a_process_that_died() -> None:
    """Promise: completions of the log come back on the stack, in order."""
    chain, log = walked()
    crash(log, 6)  # A, B and C done
    chain.fail = "D"
    assert isinstance(failing(chain.machine.resume("run", store=log)), StateFailed)
    assert chain.done == ["C", "D", "undo C", "undo B", "undo A"]


@pytest.mark.spec("cano.K5", "cano.Z7", "traps.A2")
@pytest.mark.parametrize("crashes", [1, 2, 3])
def test_a_state_resumed_again_and_again_is_undone_once(crashes: int) -> None:
    """Promise: each resume of a visit replaces what it had completed; one compensation, however many crashes."""
    chain, log = walked()
    crash(log, 4)  # B completed once
    for _ in range(crashes):
        rows = len(log.runs["run"])
        chain.fail = ""
        play(chain.machine.resume("run", store=log, keep_log=True))
        crash(log, rows + 2)  # entered B again and completed it again
    chain.done.clear()
    chain.fail = "D"
    failing(chain.machine.resume("run", store=log))
    assert chain.done == ["B", "C", "D", "undo C", "undo B", "undo A"]


@pytest.mark.spec("cano.S1", "cano.Z7", "traps.A2")
def test_a_loop_keeps_one_entry_for_each_visit() -> None:
    """Promise: A→B→A→B completed twice is undone twice, the later visit first."""
    done: list[str] = []
    machine = Machine[A, End]("loop", retry=ONCE)

    @machine.state
    async def a(s: A) -> B:
        return B(s.n + 1)

    @a.undo
    async def undo_a(left: B, s: A) -> None:
        done.append(f"undo A({s.n}) that left B({left.n})")

    @machine.state
    async def b(s: B) -> A | C:
        return A(s.n) if s.n < 2 else C(s.n)

    @machine.state
    async def c(s: C) -> End:
        raise ValueError("no")

    log = MemoryLog()
    failing(machine.run(A(), store=log, id="run"))
    assert done == ["undo A(1) that left B(2)", "undo A(0) that left B(1)"]


@pytest.mark.spec("cano.Z2", "cano.Z6")
def test_a_completed_state_whose_second_run_fails_is_still_undone() -> None:
    """Promise: what the log says was completed is undone, also if running it again fails."""
    chain, log = walked()
    crash(log, 2)  # A completed
    chain.fail = "A"
    failing(chain.machine.resume("run", store=log))
    assert chain.done == ["A", "undo A"]


@pytest.mark.spec("cano.Z8", "cano.F8", "traps.A3")
def test_a_resumed_cursor_survives_crashes_and_never_leaks_into_a_later_visit() -> None:
    """Promise: the latest cursor of this visit, also after the second crash; a new visit begins without one."""
    seen: list[tuple[int, int | None]] = []
    stop: list[tuple[int, int | None]] = []
    machine = Machine[A, End]("cursors", retry=ONCE)

    @machine.stepped
    async def step(s: A, cursor: int | None) -> More[int] | A | End:
        seen.append((s.n, cursor))
        if (s.n, cursor) in stop:
            raise ValueError("crash")
        at = cursor or 0
        if at < 3:
            return More(at + 1)
        return End(2) if s.n else A(1)  # the same state again is another visit

    log = MemoryLog()
    crashes: list[tuple[int, int | None]] = [(0, 1), (0, 1), (0, 2), (1, None)]
    for number, at in enumerate(crashes):  # twice at one cursor: the second entry of the visit has none of its own
        stop[:] = [at]
        failing(machine.resume("run", store=log) if number else machine.run(A(), store=log, id="run"))
    stop.clear()
    assert play(machine.resume("run", store=log)) == End(2)
    first, second = [None, 1, 1, 1, 2, 2, 3], [None, None, 1, 2, 3]
    assert seen == [*((0, cursor) for cursor in first), *((1, cursor) for cursor in second)]


@pytest.mark.spec("cano.Z9", "traps.A1")
def test_a_crash_in_a_router_runs_the_state_before_it_again() -> None:
    """Promise: a router leaves no trace, so the state before it decides again; a first router leaves no rows at all."""
    done: list[str] = []
    crashing = [True]
    machine = Machine[A, End]("routed", retry=ONCE)

    @machine.router
    def enter(s: A) -> B:
        return B(s.n)

    @machine.state
    async def b(s: B) -> C:
        done.append("B")
        return C(s.n)

    @machine.router
    def route(s: C) -> End:
        if crashing:
            raise KeyboardInterrupt
        return End(s.n)

    log = MemoryLog()

    async def run() -> None:
        with pytest.raises(KeyboardInterrupt):
            await machine.run(A(3), store=log, id="run")
        crashing.clear()
        assert await machine.resume("run", store=log) == End(3)

    asyncio.run(run())
    assert done == ["B", "B"]
    assert isinstance(failing(machine.resume("never begun", store=log)), RunNotFound)


@pytest.mark.spec("cano.Z10", "cano.S4", "traps.A4")
def test_a_failed_run_with_nothing_to_undo_keeps_its_log_and_can_be_resumed() -> None:
    """Promise: the seed's own example: it fails once, and resume finishes."""
    chain = Chain(undo="", fail="B")
    log = MemoryLog()
    assert isinstance(failing(chain.machine.run(A(), store=log, id="run")), StateFailed)
    chain.fail = ""
    assert play(chain.machine.resume("run", store=log, keep_log=True)) == End(4)
    assert [row.state for row in play(log.load("run"))] == ["A", "B", "B", "C", "D", "End"]
    assert chain.done == ["A", "B", "B", "C", "D"]


@pytest.mark.spec("cano.Z11", "cano.T5")
def test_the_path_of_an_error_has_the_states_before_the_crash() -> None:
    """Promise: with the resumed state once; labels this machine no longer has are left out and told."""
    chain = Chain(undo="", fail="C")
    log = MemoryLog()
    failing(chain.machine.run(A(), store=log, id="run"))
    error = failing(chain.machine.resume("run", store=log))
    assert isinstance(error, StateFailed)
    assert (error.state, error.attempt, error.path) == ("C", 1, ("A", "B", "C"))
    watcher = RecordingObserver()
    later = Machine[C, End]("chain", observers=[watcher], retry=ONCE)

    @later.state
    async def c(s: C) -> End:
        raise ValueError("no")

    error = failing(later.resume("run", store=log))
    assert isinstance(error, StateFailed)
    assert error.path == ("C",)
    assert ("unknown_state", "A") in watcher.events


@pytest.mark.spec("cano.Z12", "cano.T15")
def test_a_cancelled_resume_stops_before_the_body() -> None:
    """Promise: the body at the resume point does not run, and what was completed is undone."""
    chain, log = walked()
    crash(log, 5)
    stop = asyncio.Event()
    stop.set()
    assert isinstance(failing(chain.machine.resume("run", store=log, cancel=stop)), RunCancelled)
    assert chain.done == ["undo B", "undo A"]


@pytest.mark.spec("cano.K3", "cano.K10")
def test_rows_are_sorted_here_whatever_the_store_does() -> None:
    """Promise: a store that forgets the order does not invert a rollback."""
    chain, log = walked()
    crash(log, 6)

    class Careless(MemoryLog):
        async def load(self, run_id: str) -> list[LogRow]:
            return list(reversed(list(await log.load(run_id))))

    careless = Careless()
    careless.runs = log.runs
    chain.fail = "D"
    failing(chain.machine.resume("run", store=careless))
    assert chain.done[-3:] == ["undo C", "undo B", "undo A"]


@pytest.mark.spec("cano.K8", "cano.K6")
def test_a_corrupt_row_names_its_run_and_sequence() -> None:
    """Promise: never a crash of another kind: the error says which run, which row, and what is wrong."""
    entry = LogRow(0, "entry", "A", "a", 1, "", b"{}")
    cases = {
        "row 0": [LogRow(0, "cursor", "A", "a", 1, "", b"1")],
        "row 1": [entry, LogRow(1, "cursor", "A", "a", 1)],
        "visit 7": [entry, LogRow(1, "completion", "A", "a", 7, "", b"{}")],
        "newer": [entry, LogRow(1, "teleport", "A", "a", 1)],
        "rollback had begun": [entry, LogRow(1, "rollback", "A", "", 1, "", b"{}"), LogRow(2, "entry", "B", "b", 2)],
        "undone": [entry, LogRow(1, "undone", "A", "", 1)],
        "expected row 1": [entry, entry],
    }
    for said, rows in cases.items():
        with pytest.raises(CorruptJournal, match="run-7") as caught:
            rehydrate("run-7", rows)
        assert said in str(caught.value), said
    assert rehydrate("run-7", [entry, LogRow(1, "cursor", "A", "a", 1, "", b"")]).cursors == [b""]
    with pytest.raises(CorruptJournal, match="line 3"):
        decode_log_row(b'{"sequence": 0, "kind"', "line 3")


def test_a_row_survives_being_text() -> None:
    """Promise: what stores of text keep comes back equal."""
    row = LogRow(3, "completion", "Quoting", "choose", 2, "4", bytes(range(256)))
    assert decode_log_row(encode_log_row(row)) == row


def test_an_old_label_still_reads_after_a_rename() -> None:
    """Promise: was= maps the old label to the state of today."""
    log = MemoryLog()
    log.runs["run"] = {0: LogRow(0, "entry", "Old", "x", 1, "", b'{"n":4}')}
    machine = Machine[B, End]("renamed", retry=ONCE)

    @machine.state(was="Old")
    async def b(s: B) -> End:
        return End(s.n)

    assert play(machine.resume("run", store=log)) == End(4)


def test_a_state_that_no_longer_decodes_is_refused() -> None:
    """Promise: data of another shape is an error, and nothing runs."""
    log = MemoryLog()
    log.runs["run"] = {0: LogRow(0, "entry", "D", "d", 1, "", b'{"n":"four"}')}
    chain = Chain()
    assert "n" in str(failing(chain.machine.resume("run", store=log)))
    assert not chain.done
