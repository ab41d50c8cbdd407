"""Who held a run, and every crash, read from a journal."""

from __future__ import annotations

from holdfast.core import events as e
from holdfast.core.holders import Holder, holders
from tests.unit.core.journals import Journal, at, done, step


def told(found: list[Holder]) -> list[tuple[str, int, float, float | None, str]]:
    def second(moment: object) -> float | None:
        return None if moment is None else (moment - at(0)).total_seconds()  # type: ignore[operator]

    return [(x.worker, x.epoch, second(x.begin) or 0.0, second(x.until), x.end) for x in found]


def test_a_run_that_was_parked_has_a_holder_for_each_claim() -> None:
    """Promise: bands without a crash; the last is open while the run is held."""
    journal = Journal().claim(step("a")).turn(done("a"), e.Released(worker="w1")).claim(step("b"), worker="w2")
    found, crashes = holders(journal.turns)
    assert told(found) == [("w1", 1, 1, 2, "released"), ("w2", 2, 3, None, "held")]
    assert crashes == []


def test_a_run_that_waits_is_let_go_without_a_crash() -> None:
    """Promise: a claim that restarts no step says nothing of the holder before it but that it had let go."""
    journal = Journal().claim(e.WaitStarted(key="approved", name="approved"))
    journal.turn(e.Claimed(worker="w2"), when=9).turn(e.Completed(), when=10)
    found, crashes = holders(journal.turns)
    assert told(found) == [("w1", 1, 1, 1, "released"), ("w2", 2, 9, 10, "ended")]
    assert crashes == []


def test_a_run_that_nobody_holds_now_was_let_go_with_its_last_row() -> None:
    """Promise: the journal does not say so, the run's row does; a holder that has let go already is left alone."""
    journal = Journal().claim(step("a")).turn(done("a"), e.WaitStarted(key="approved", name="approved"))
    assert told(holders(journal.turns, is_held=True)[0]) == [("w1", 1, 1, None, "held")]
    assert told(holders(journal.turns, is_held=False)[0]) == [("w1", 1, 1, 2, "released")]
    ended = Journal().claim(e.Completed())
    assert told(holders(ended.turns, is_held=False)[0]) == [("w1", 1, 1, 1, "ended")]


def test_a_claim_without_a_release_before_it_is_a_crash() -> None:
    """Promise: the crash names the worker, when it was last seen, what was cut off and who took over, when."""
    journal = Journal().claim(step("a"), step("b")).turn(done("a"))
    journal.turn(e.Claimed(worker="w2", restarted=("b",)), when=9).turn(done("b"), e.Completed())
    found, [crash] = holders(journal.turns)
    assert told(found) == [("w1", 1, 1, 9, "crashed"), ("w2", 2, 9, 4, "ended")]
    assert (crash.worker, crash.by, crash.cut, crash.epoch) == ("w1", "w2", ("b",), 1)
    assert (crash.last_seen, crash.taken_over_at, crash.after_seconds) == (at(2), at(9), 7.0)


def test_a_pause_and_an_end_let_go_of_a_run() -> None:
    journal = Journal().claim(step("a")).turn(e.Paused(reason="operator")).turn(e.Resumed())
    journal.claim(e.Completed(), worker="w2")
    found, crashes = holders(journal.turns)
    assert [(x.worker, x.end) for x in found] == [("w1", "paused"), ("w2", "ended")]
    assert crashes == []


def test_a_run_that_nobody_claimed_has_no_holder() -> None:
    assert holders(Journal().turns) == ([], [])
    assert holders([]) == ([], [])
