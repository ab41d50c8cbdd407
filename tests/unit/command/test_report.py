"""Where the time of a run went: the order of tests, the figures that are kept, and what is said loudly."""

from __future__ import annotations

from pathlib import Path

from tests.command.durations import Cost, Figures, committed, record, slowest_first
from tests.command.report import report
from tests.command.stages import Outcome


def told(outcomes: list[Outcome], tests: dict[str, Cost], known: Figures) -> str:
    return "\n".join(report(outcomes, tests, known, 100.0))


def test_slow_tests_come_first() -> None:
    """Contract: longest first; the rest keep their order, so that every process computes the same list."""
    known = {"c": Cost(9.0, 1.0), "b": Cost(3.0, 8.0)}
    assert slowest_first([(name, name) for name in "abcd"], known) == ["c", "b", "a", "d"]


def test_the_figures_come_back(tmp_path: Path) -> None:
    """Contract: what is recorded is what the next run compares with; quick tests are left out."""
    path = tmp_path / "figures.json"
    assert committed(path) == Figures()
    record({"slow": Cost(2.04, 0.3), "quick": Cost(0.2, 0.1), "busy": Cost(0.4, 1.5)}, {"tests": 712.4}, path)
    assert committed(path) == Figures({"busy": Cost(0.4, 1.5), "slow": Cost(2.0, 0.3)}, {"tests": 712})
    assert len(path.read_text().splitlines()) == 6


def test_a_run_says_where_its_time_went() -> None:
    """Contract: each stage with seconds, processor seconds and those of servers, the sum, and the ten slowest tests."""
    outcomes = [Outcome("tests", 0, 90.0, 150.0, servers=20.0), Outcome("mypy, strict", 1, 30.0, 31.0)]
    text = told(outcomes, {f"t{number}": Cost(number, 0.5) for number in range(12)}, Figures())
    assert "ok         90.0        150.0       20.0  tests" in text
    assert "FAILED     30.0         31.0             mypy, strict" in text
    assert "100.0        181.0       20.0  all together" in text
    assert "the 10 slowest of 12 tests" in text
    assert "t11" in text
    assert "t1\n" not in text
    assert "!!" not in text


def test_what_grew_is_said_loudly() -> None:
    """Contract: a test past 20 s and a stage over its budget are named, with the tests that grew most."""
    known = Figures({"t": Cost(2.0, 2.0), "steady": Cost(5.0, 5.0)}, {"tests": 100})
    tests = {"t": Cost(25.0, 30.0), "steady": Cost(5.0, 5.1), "new": Cost(4.0, 4.0)}
    text = told([Outcome("tests", 0, 90.0, 131.0)], tests, known)
    assert "!! SLOW TEST: 25.0 s, more than 20 s: t (committed: 2.0 s)" in text
    assert "!! OVER BUDGET: tests used 131 processor seconds, 100 are committed" in text
    assert "+28.0  t (committed: 2.0)" in text
    assert "+4.0  new (no figure yet)" in text
    assert "steady (" not in text


def test_a_stage_within_its_budget_is_not_named() -> None:
    known = Figures({}, {"tests": 100})
    assert "!!" not in told([Outcome("tests", 0, 90.0, 129.0)], {}, known)


def test_a_process_left_behind_fails_its_stage() -> None:
    """Contract: a server or worker that outlives the suite is a failure, and named as one."""
    left = Outcome("tests", 0, 1.0, 1.0, left=2)
    assert not left.is_ok
    assert left.verdict == "FAILED (2 processes left behind)"
