"""Where the microseconds of a step go, in five lines: measured, kept in `results.json`, and shown on the page."""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import calls
from benchmarks.handoffs import there_and_back
from benchmarks.machine import machine
from benchmarks.places import placed
from benchmarks.profiling import profiled, shares
from benchmarks.report import shown
from benchmarks.scale import Scale

WORKLOADS = {"W3": "a step of W3", "W1": "a run of W1"}

_TEXT = """\
## Where the microseconds of a step go

`python3 dev.py bench --split` splits the processor time of a step, and of a run of one step, and keeps the figures;
`--profile W3` says more. {on}

{table}

The functions of Holdfast that are entered are counted too. A start, one step and its result enter {run} in {files}
files, each further step {step}. What is left is flat: no function takes more than a few hundredths.

- **Ours** is the turn: it is decided, encoded, chained, folded, projected and submitted, and the program's own loop
  runs in between. Each of these is a function of its own, with a test of its own. Fewer calls would put the pure
  machine, the store and the program into one another.
- **asyncio**: a body is a task even if it never suspends, since `asyncio.timeout` and cancellation need a real one.
  To begin it at once, without a pass of the event loop, was built and measured, by asyncio's eager tasks and on 3.11 by
  taking its first step out of the loop's queue. A step took 2 % fewer instructions, but W3 12 % more processor time, W2
  and W4 the same: bodies then all run before the next transaction begins, and not beside it.
- **The codec**: arguments and results are encoded, decoded and compared, so that a live run sees what a replay would
  see.
- **Python's builtins** are what our functions call: dictionaries, tuples, locks, the files' state, and the collector.
- A sync workflow costs two hand-offs between threads for each turn, and the thread of its body two more. Each wakes a
  thread twice: once for the lock, once for the interpreter. The body of the workflow cannot run on the event loop's own
  thread: code that blocks would stop every run, and nothing could give it up after a minute. There and back takes
  {locks} µs of processor time by locks, as it is done, and {pipes} µs by pipes; but then each such run in memory would
  keep files open, and a process often may have no more than 1,024.
- A sync workflow of one step costs more than its hand-offs: a thread is begun for it, and ends.
"""


def measure(scale: Scale, parent: str | None, store: str) -> dict[str, Any]:
    """Microseconds and shares of each workload, the calls, and hand-offs between threads. The watchdog notices that a
    profiler slows things down: quiet."""
    logging.disable(logging.WARNING)
    found: dict[str, Any] = {"microseconds": {}, "shares": {}}
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=parent) as folder,
        placed(store, Path(folder)) as stores,
    ):
        for workload in WORKLOADS:
            each, stats = profiled(workload, scale, stores.url)
            found["microseconds"][workload] = float(f"{each:.3g}")
            found["shares"][workload] = {name: round(share, 3) for name, share in shares(stats).items()}
        run, per_step = asyncio.run(calls.counts(stores.url(f"c{time.monotonic_ns()}")))
    of = machine()
    found["machine"] = f"{of['processor']}, {of['cores']} cores, load {of['load_before']}"
    found["hand_offs"] = {name: float(f"{each:.2g}") for name, each in there_and_back().items()}
    found["calls"] = {"run": run.total, "files": run.files, "step": round(per_step)}
    return found


def render(split: Mapping[str, Any], on: str) -> str:
    """The section of the page."""
    hand_offs = {name: shown(each) for name, each in split["hand_offs"].items()}
    return _TEXT.format(table="\n".join(_table(split)), on=on, **split["calls"], **hand_offs)


def _table(split: Mapping[str, Any]) -> Sequence[str]:
    rows = [f"| | {' | | '.join(WORKLOADS.values())} | |", f"|---|{'---:|---:|' * len(WORKLOADS)}"]
    for name in next(iter(split["shares"].values())):
        cells: list[str] = []
        for workload in WORKLOADS:
            share = split["shares"][workload][name]
            cells += [f"{share:.0%}".replace("%", " %"), f"{shown(share * split['microseconds'][workload])} µs"]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return rows
