"""The table of what many schedules and limits cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.places import STORES, placed
from benchmarks.rules import Sizes, measured
from benchmarks.rules_section import TITLES, rendered, rules_section

TINY = Sizes(few=2, schedules=20, keys=10, rounds=2, tries=3, pending=40)
FACTS = {
    "machine": {"processor": "x", "cores": 2, "python": "3", "load_before": "0.1"},
    "sizes": TINY._asdict(),
}


@pytest.mark.parametrize("store", STORES)
async def test_what_rules_cost_is_measured(store: str, tmp_path: Path) -> None:
    """Promise: a claim finds its run, a look finds nothing, a place is granted, among few and among many; each figure
    has its row."""
    with placed(store, tmp_path) as place:
        found = await measured(place, TINY)
    assert [(name, list(parts)) for name, parts in found.items()] == [
        (name, ["p50", "p99"]) for name in ("claim", "idle", "place")
    ]
    assert all(figure > 0 for parts in found.values() for cost in parts.values() for figure in cost.values())
    rows = [line for line in rendered({**FACTS, "costs": {store: found}}).splitlines() if line.startswith("| ")]
    assert len(rows) == 6
    assert all(line.startswith(f"| {TITLES[store]} | ") for line in rows[1:])


def test_without_results_there_is_no_section(tmp_path: Path) -> None:
    assert rules_section(tmp_path / "none.json") == []
