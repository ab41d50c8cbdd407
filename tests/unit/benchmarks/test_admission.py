"""What rules of a queue and limits cost, and how long a tenant waits behind another."""

from __future__ import annotations

from pathlib import Path

from benchmarks.admission import Sizes, all_of
from benchmarks.admission_section import admission_section, rendered

TINY = Sizes(runs=4, rounds=1, flood=60, few=5, seconds=0.0)
FACTS = {"machine": {"processor": "x", "cores": 2, "python": "3", "load_before": "0.1"}, "sizes": TINY._asdict()}


async def test_what_admission_costs_is_measured() -> None:
    """Promise: each colour of run has its rate, the small tenant waits for at most two bodies for each of its own, and
    a store has its row."""
    found = await all_of(["memory"], TINY)
    assert all(rate > 0 for rate in found["memory"]["runs"].values())
    assert found["memory"]["alone"]["bodies"] == TINY.few
    assert found["memory"]["behind"]["bodies"] <= 2 * TINY.few
    rows = [line for line in rendered({**FACTS, "stores": found}).splitlines() if line.startswith("| ")]
    assert rows[-1].startswith("| memory | ")


def test_without_figures_there_is_no_section(tmp_path: Path) -> None:
    assert admission_section(tmp_path / "none.json") == []
