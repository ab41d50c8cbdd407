"""The table of what each verb costs."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import msgspec

from benchmarks.counting import Connections
from benchmarks.verb_section import RESULTS, rendered
from benchmarks.verbs import counted_on_sqlite, of_clients


async def test_what_the_page_says_of_a_clients_verbs_is_so(tmp_path: Path) -> None:
    """Promise: commits and statements on SQLite are those that the page tells; after an intended change:
    `python -m benchmarks.verbs --record`, and `python3 dev.py bench --render`."""
    kept = json.loads(RESULTS.read_text(encoding="utf-8"))["clients"]["sqlite"]
    with Connections() as connections:
        found = await of_clients(f"sqlite:///{tmp_path / 'verbs.db'}", partial(counted_on_sqlite, connections), times=1)
    assert {verb: msgspec.to_builtins(cost) for verb, cost in found.items()} == kept


def test_a_verb_that_one_store_does_not_have_is_left_empty() -> None:
    """Promise: the table has a row for each verb of the first store."""
    cost = {"commits": 1, "writes": 2, "reads": 3, "trips": 0}
    text = rendered({"clients": {"sqlite": {"`a`": cost}}, "workflows": {"sqlite": {"`b`": cost}}})
    assert "| `a` | 1 | 2 | 3 |  |" in text
    assert "| `b` | 1 | 2 | 3 |  |" in text
