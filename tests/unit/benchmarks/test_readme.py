"""The figures in the README are those of the committed results, and nobody types them."""

from __future__ import annotations

import pytest

from benchmarks.__main__ import RESULTS
from benchmarks.figures import FIGURES
from benchmarks.readme import BEGIN, CHOSEN, END, README, renewed, summary
from benchmarks.report import load
from tests.unit.benchmarks.test_report import FACTS, ROUNDS

MEASURED = {**FACTS, "rounds": ROUNDS}


def test_the_readme_shows_the_committed_results() -> None:
    """Promise: the table is what `dev.py bench --render` makes; without results there is no table."""
    text = README.read_text(encoding="utf-8")
    if RESULTS.exists():
        assert renewed(text, load(RESULTS)["sqlite"]) == text
    else:
        assert not text.partition(BEGIN)[2].partition(END)[0].strip()


def test_a_line_says_how_many_times_better() -> None:
    table = summary(MEASURED)
    assert "| runs of one step | 400 runs/s | 40.0 × better (10.0 – 90.0) |" in table
    assert "| on disk per step | 260 B |  |" in table
    assert "DBOS 3.3" in table


def test_only_the_place_between_the_marks_changes() -> None:
    once = renewed(f"before\n{BEGIN}\nold figures\n{END}\nafter\n", MEASURED)
    assert once.startswith("before\n")
    assert once.endswith("after\n")
    assert "old figures" not in once
    assert renewed(once, MEASURED) == once
    with pytest.raises(ValueError, match="no place for the figures"):
        renewed("nothing here", MEASURED)


def test_what_is_chosen_is_measured() -> None:
    assert set(CHOSEN) <= {figure.key for figure in FIGURES}
