"""Which workloads there are, which figures they give, and what each figure should be."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from benchmarks.latency import w4
from benchmarks.parked import w7
from benchmarks.raw import raw_limits
from benchmarks.recovery import w5, w6
from benchmarks.scale import Scale
from benchmarks.throughput import w1, w2, w3, w8

Run: TypeAlias = Callable[[Scale, Path], Awaitable[dict[str, float]]]


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table. `vs_raw`: the figure that holds its ratio to raw commits (of a
    duration: to the duration of one), measured beside it."""

    key: str
    title: str
    unit: str
    better: Literal["more", "less"] = "more"
    target: float | None = None
    is_required: bool = False
    vs_raw: str = ""

    def is_reached(self, value: float) -> bool | None:
        """None if there is no target."""
        if self.target is None:
            return None
        return value >= self.target if self.better == "more" else value <= self.target


async def raw(scale: Scale, folder: Path) -> dict[str, float]:
    """The limits."""
    return raw_limits(folder, scale.raw_commits)


WORKLOADS: dict[str, Run] = {
    "raw": raw,
    "W1": w1,
    "W2": w2,
    "W3": w3,
    "W4": w4,
    "W5": w5,
    "W6": w6,
    "W7": w7,
    "W8": w8,
}


def _rates(name: str, what: str, unit: str, target: float | None) -> tuple[Figure, ...]:
    colours = {"async": "async bodies", "threaded": "sync bodies in threads", "sync": "sync workflow and bodies"}
    figures: list[Figure] = []
    for colour, said in colours.items():
        key = f"{name}.{colour}"
        wanted = None if target is None else target if colour == "async" else target * 0.6
        figures += (
            Figure(key, f"{what}, {said}", unit, target=wanted, vs_raw=f"{key}.raw"),
            Figure(f"{key}.cpu", f"{what}, {said}: processor time each", "µs", "less"),
        )
    return tuple(figures)


FIGURES: tuple[Figure, ...] = (
    Figure("raw.commits", "plain apsw, WAL+FULL, 1-row commits", "/s"),
    Figure("raw.grouped", "plain apsw, WAL+FULL, rows in groups of 100", "/s"),
    Figure("raw.sync_p50", "fsync of 4 kB, median", "ms", "less"),
    Figure("raw.sync_p99", "fsync of 4 kB, 99th percentile", "ms", "less"),
    *_rates("W1", "1-step runs", "runs/s", 2_500),
    *_rates("W2", "one run, steps in sequence", "steps/s", None),
    Figure("W2.async.raw", "… as a share of raw 1-row commits", "×", target=0.5, is_required=True),
    *_rates("W3", "concurrent runs", "steps/s", 7_000),
    Figure("W4.async.p50", "start → result, in process, median", "ms", "less", target=1.6, vs_raw="W4.async.p50.raw"),
    Figure("W4.async.p95", "start → result, in process, 95th percentile", "ms", "less"),
    Figure(
        "W4.threaded.p50",
        "start → result, in process, sync body, median",
        "ms",
        "less",
        target=2.7,
        vs_raw="W4.threaded.p50.raw",
    ),
    Figure("W4.threaded.p95", "start → result, in process, sync body, 95th percentile", "ms", "less"),
    Figure(
        "W4.other.p50", "start → result, worker in another process, median", "ms", "less", vs_raw="W4.other.p50.raw"
    ),
    Figure("W4.other.p95", "start → result, worker in another process, 95th percentile", "ms", "less"),
    Figure("W5.total", "killed in step 6 of 10 → all completed by another worker", "s", "less"),
    Figure("W5.lease", "… of which the dead worker's lease", "s", "less"),
    Figure("W5.after", "… lease apart", "s", "less", target=1.2),
    Figure("W5.again", "… by the same worker started again, launch included", "s", "less"),
    Figure("W6.launch", "resume after 5,000 steps, from process launch", "s", "less", target=0.12),
    Figure("W6.main", "… from the end of the imports", "ms", "less"),
    Figure("W6.claim", "… from the claim", "ms", "less"),
    Figure("W6.program", "… from the program's start", "ms", "less", target=50),
    Figure("W6.peak", "… peak memory of the process", "MB", "less"),
    Figure("W6.grown", "… of which since the imports", "MB", "less"),
    Figure("W7.memory", "parked for an hour, memory per run", "B", "less", target=1_024),
    Figure("W7.cpu", "… idle processor", "%", "less", target=0.5),
    Figure("W7.writes", "… idle write transactions", "/s", "less", target=1),
    Figure("W7.reads", "… idle reads", "/s", "less"),
    Figure("W7.looks", "… idle looks at data_version", "/s", "less"),
    Figure("W8.one", "bytes on disk per step, one long run", "B", "less", target=250, is_required=True),
    Figure("W8.many", "bytes on disk per step, many runs of 20", "B", "less", target=250, is_required=True),
)
