"""The part of the page about speed that tells what many schedules and many keys of limits cost: made from `rules.json`,
which `python -m benchmarks.rules --record` writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

RESULTS: Final = Path(__file__).with_name("rules.json")

TITLES: Final = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}

_OPENING = """\
## Among many schedules and limits

`python -m benchmarks.rules --record` measures, in turns, a store with {few} schedules and {few} keys of a limit, and
one with {schedules:,} and {keys:,}; both have {pending:,} runs to claim. A *look* is what a worker with nothing to do
asks: for due runs, for due schedules, for lines in which steps wait. A *place* is taken and given back. Each was tried
{rounds} times {tries} times. The ratio is to be 1.3 at most for the claim's p99 and for the look. {processor}, {cores}
cores; Python {python}. The machine's load was {load_before} before.

| | | among few, ms | among many, ms | × |
|---|---|---:|---:|---:|
"""

_ROWS: Final = (
    ("claim", "p50", "claim, p50"),
    ("claim", "p99", "claim, p99"),
    ("idle", "p50", "look, p50"),
    ("place", "p50", "place, p50"),
    ("place", "p99", "place, p99"),
)


def rules_section(path: Path = RESULTS) -> list[str]:
    """The section; nothing if there are no results."""
    return [rendered(json.loads(path.read_text(encoding="utf-8")))] if path.exists() else []


def rendered(found: Mapping[str, Any]) -> str:
    """The section of these results."""
    lines = [_OPENING.format(**found["machine"], **found["sizes"]).rstrip("\n")]
    for store, title in TITLES.items():
        if store in found["costs"]:
            lines += [_row(title, words, found["costs"][store][what][part]) for what, part, words in _ROWS]
    return "\n".join(lines) + "\n"


def _row(title: str, words: str, cost: Mapping[str, float]) -> str:
    return f"| {title} | {words} | {cost['few']:.2f} | {cost['many']:.2f} | {cost['ratio']:.2f} |"
