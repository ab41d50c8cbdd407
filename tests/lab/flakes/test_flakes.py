"""Flaky tests are found: those that depend on the machine are run again and again, and each failure has its seed."""

from __future__ import annotations

from pathlib import Path

from tests.command.changed import sources
from tests.lab.flakes.campaign import flakes
from tests.lab.flakes.selection import selection
from tests.lab.levels import Effort, Report

TINY = """
import os

def test_always():
    assert True

def test_sometimes():
    assert os.environ["HOLDFAST_TEST_SEED"] != "8", "the dice were against it"
"""
PROJECT = {
    "tests/conftest.py": "import time",
    "tests/support/servers.py": "import socket",
    "tests/support/words.py": "NAME = 'tests.support.servers'",
    "tests/unit/web/conftest.py": "from tests.support.servers import start",
    "tests/unit/web/test_routes.py": "",
    "tests/unit/core/test_turn.py": "from tests.support.words import NAME",
    "tests/unit/core/test_waits.py": "import asyncio\n\nasync def test_it():\n    await asyncio.sleep(0)",
    "tests/chaos/test_kills.py": "from tests.support import warm",
}


def rounds(folder: Path, suite: str, seeds: int) -> tuple[Report, list[str]]:
    """The level on a suite of one file, with what it said."""
    path, said = folder / "test_tiny.py", list[str]()
    path.write_text(suite)
    words = (str(path), "-p", "no:cacheprovider", f"--rootdir={folder}")
    return flakes(Effort(seeds=seeds, first=7, processes=0, for_pytest=words, say=said.append)), said


def test_a_test_that_fails_now_and_then_is_named_with_its_seeds(tmp_path: Path) -> None:
    """Promise: two rounds have two seeds; the table counts the failures of a test, the log has each of them."""
    report, said = rounds(tmp_path, TINY, 2)
    assert report.figures == {"rounds": 2, "tests that failed": 1}
    assert report.sometimes == {"a test passed": 3}
    assert report.problems[0].startswith("test_tiny.py::test_sometimes failed 1 of 2 times: HOLDFAST_TEST_SEED=8 ")
    assert said[-1].split() == "1 of 2 test_tiny.py::test_sometimes (seeds 8)".split()
    assert sum("the dice were against it" in line for line in said) == 1


def test_a_round_that_does_not_begin_is_a_problem(tmp_path: Path) -> None:
    """Promise: a suite that cannot be collected does not pass."""
    report, _ = rounds(tmp_path, "import nothing_of_that_name", 1)
    assert "nothing_of_that_name" in report.problems[0]
    assert report.never == ["a test passed"]


def test_what_depends_on_the_machine_is_selected() -> None:
    """Promise: directly, through a module, or through a conftest; what only names such a module is left out."""
    assert selection(PROJECT) == {
        "tests/chaos/test_kills.py": {"processes"},
        "tests/unit/core/test_waits.py": {"clocks"},
        "tests/unit/web/test_routes.py": {"servers"},
    }


def test_the_project_is_divided() -> None:
    """Promise: every test of a real process or store is in the selection, and no pure decision is."""
    found = selection(sources())
    assert {"processes", "servers", "clocks"} <= found["tests/chaos/test_killed_batch.py"]
    assert {path for path in sources() if path.startswith("tests/integration/test_")} <= set(found)
    assert "tests/unit/turn/test_machine_turns.py" not in found
    assert "tests/unit/core/test_retry.py" not in found
