"""Many processes write to one SQLite file, and each gets its share."""

from __future__ import annotations

from pathlib import Path

from tests.lab.crowds.campaign import MOST_ASKS, wrong_with
from tests.lab.crowds.crowd import Outcome, crowd
from tests.lab.crowds.member import Share


def test_each_process_of_a_crowd_gets_its_share(tmp_path: Path) -> None:
    """Promise: of twelve processes that write without a break, none gets less than half its fair share, none is
    refused, and their waiting costs a few asks for each commit."""
    outcome = crowd(tmp_path / "crowd.db", 12, 12 * 40)
    assert wrong_with(outcome) == [], outcome


def test_two_processes_take_turns(tmp_path: Path) -> None:
    """Promise: the one that has just written does not take the file again before the one that waits."""
    outcome = crowd(tmp_path / "crowd.db", 2, 2 * 100)
    assert wrong_with(outcome) == [], outcome


def test_what_the_level_calls_wrong() -> None:
    """Promise: a starved process, a refused write and asking all the time are each noticed."""
    fair = Share(commits=10, refused=0, asks=30, processor=0.1, longest=0.1)
    starved = Share(commits=3, refused=1, asks=int(MOST_ASKS * 30), processor=0.1, longest=10)
    assert wrong_with(Outcome([fair, fair], 1.0)) == []
    assert len(wrong_with(Outcome([fair, fair, starved], 1.0))) == 3
