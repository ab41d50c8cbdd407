"""The part of the page about speed that tells what leases by etcd and NATS cost: made from `leases.json`, which
`python -m benchmarks.leases --record` writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

RESULTS: Final = Path(__file__).with_name("leases.json")

TITLES: Final = {"postgresql": "PostgreSQL", "sqlite": "SQLite"}

_OPENING = """\
## With leases by etcd or NATS

`python -m benchmarks.leases --record` measures W1 to W4 in small with the store's own leases, with etcd and with NATS,
in turns in one run: W1 is {w1} runs of one step, W2 one run of {w2} steps, W3 {w3} runs of {steps} steps, W4 {w4} runs
one after the other. A ratio is of two figures of the same round. Each manager is one server on the same machine:
{processor}, {cores} cores; Python {python}. Medians of {rounds} rounds, with the least and the most. The machine's load
was {load}.
"""

_WORKLOADS: Final = {
    "W1": "runs of one step, all at once",
    "W2": "steps of one run, one after the other",
    "W3": "steps of many runs at once",
    "W4": "start to result, one run after the other",
}

_GRANTS = """\
A claim asks the manager once for up to a hundred runs, and each grant is given back. Runs of one step (W1) pay for that
with each step, longer ones (W2, W3) with one of many. In W4 the run cannot begin together with its start: it is made,
found due, granted and claimed, and its grant is given back afterwards. When to use a manager is told in
[the guide](../guides/leases.md).

The grants of {grants:,} runs of {workers} workers, and what one worker had, taken over by another after it gave all of
it back (the machine's load was {load}):

| | etcd | NATS |
|---|---:|---:|
"""

_RECOVERY = """
Recovery: {workers} workers hold these {grants:,} runs, in one PostgreSQL. One worker more is crashed while it has
{each} runs whose step has begun, and starts again under its id. Those runs are its own at once, so no lease has to run
out. From its start until the last of them has run its step again and ended (the machine's load was {load}):

| | the store's leases | etcd | NATS |
|---|---:|---:|---:|
"""


def lease_section(path: Path = RESULTS) -> list[str]:
    """The section; nothing if there are no results."""
    return [rendered(json.loads(path.read_text(encoding="utf-8")))] if path.exists() else []


def rendered(found: Mapping[str, Any]) -> str:
    """The section of these results."""
    given = {**found["machine"], **found["sizes"], "rounds": found["rounds"]}
    lines = [_OPENING.format(**given, load=found["loads"]["costs"])]
    for store, title in TITLES.items():
        if store in found["costs"]:
            lines += [*_costs(found["costs"][store], title), ""]
    grants = found["grants"]
    lines.append(_GRANTS.format(**given, load=found["loads"]["grants"]).rstrip("\n"))
    lines += [f"| {name} | {grants['etcd'][name]} | {grants['nats'][name]} |" for name in grants["etcd"]]
    lines.append(_RECOVERY.format(**given, load=found["loads"]["recovery"]).rstrip("\n"))
    for name, words in (("median", "ms, the median of five workers"), ("most", "ms, the slowest of them")):
        times = [f"{found['recovery'][kind][name]:.0f}" for kind in ("store", "etcd", "nats")]
        lines.append(f"| {words} | {' | '.join(times)} |")
    return "\n".join(lines) + "\n"


def _costs(found: Mapping[str, Any], title: str) -> list[str]:
    return [
        f"| {title} | the store's leases, ms | × etcd | × NATS |",
        "|---|---:|---:|---:|",
        *(
            f"| {workload}, {words} | {found[workload]['store']['median']} | {_said(found[workload]['etcd'])} | "
            f"{_said(found[workload]['nats'])} |"
            for workload, words in _WORKLOADS.items()
        ),
    ]


def _said(ratio: Mapping[str, float]) -> str:
    return f"{ratio['median']:.2f} ({ratio['least']:.2f} to {ratio['most']:.2f})"
