"""The part of the page about speed that tells what rules of a queue and limits cost, and how long a tenant waits behind
another: made from `admission.json`, which `python -m benchmarks.admission --record` writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

RESULTS: Final = Path(__file__).with_name("admission.json")

TITLES: Final = {"memory": "memory", "sqlite": "SQLite", "postgresql": "PostgreSQL"}

_OPENING = """\
## Under rules

`python -m benchmarks.admission --record` measures W1 ({runs:,} runs of one step, all at once, the median of {rounds}
rounds in turns) in a queue with a rule and under a limit that never hold anything back. A limited step takes two turns
and a transaction for its place. A start in a queue with rules waits for a claim.

Then a tenant starts {few} runs in a queue of two places, alone and while another has {flood:,} waiting: until its last
body began, p95, in milliseconds and in bodies. Both ratios are to be 2 at most. A tenant that comes back may catch up
nine turns, so its ten runs come first once a place is free: one body later than alone at most, where the last begins
after four. The store in memory reads all its runs for a claim. {processor}, {cores} cores; Python {python}. The
machine's load was {load_before} before.

| | W1, runs/s | in a queue | under a limit | alone | behind {flood:,} | × |
|---|---:|---:|---:|---:|---:|---:|
"""


def admission_section(path: Path = RESULTS) -> list[str]:
    """The section; nothing if there are no results."""
    return [rendered(json.loads(path.read_text(encoding="utf-8")))] if path.exists() else []


def rendered(found: Mapping[str, Any]) -> str:
    """The section of these results."""
    lines = [_OPENING.format(**found["machine"], **found["sizes"]).rstrip("\n")]
    lines += [_row(title, found["stores"][store]) for store, title in TITLES.items() if store in found["stores"]]
    return "\n".join(lines) + "\n"


def _row(title: str, one: Mapping[str, Any]) -> str:
    runs, alone, behind = one["runs"], one["alone"], one["behind"]
    rates = " | ".join(f"{runs[name]:,.0f}" for name in ("plain", "queue", "limit"))
    waits = " | ".join(f"{wait['ms']:.0f} ms, {wait['bodies']} bodies" for wait in (alone, behind))
    return (
        f"| {title} | {rates} | {waits} | {behind['ms'] / alone['ms']:.1f}, {behind['bodies'] / alone['bodies']:.1f} |"
    )
