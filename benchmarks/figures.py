"""Which figures the workloads give, in the order of the table, and what each should be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table.

    `target` is absolute. `times` is how many times better than the peer's `beside` figure it should be. `vs_raw` names
    the figure that holds its ratio to raw commits (of a duration: to the duration of one), measured beside it.
    """

    key: str
    title: str
    unit: str
    better: Literal["more", "less"] = "more"
    target: float | None = None
    times: float | None = None
    beside: str = ""
    vs_raw: str = ""

    @property
    def workload(self) -> str:
        """W1 … W9, or raw."""
        return self.key.partition(".")[0]

    @property
    def peer_key(self) -> str:
        """The peer's figure it is compared with."""
        return self.beside or self.key

    def ratio(self, ours: float, theirs: float) -> float:
        """How many times better than the peer."""
        return ours / theirs if self.better == "more" else theirs / ours


SYNC_SHARE = 0.6
"""Sync bodies reach at least this share of a target."""

COLOURS = {"async": "async bodies", "threaded": "sync bodies in threads", "sync": "sync workflow and bodies"}


@dataclass(frozen=True, slots=True)
class Targets:
    """How many times better than a peer on the same kind of store each should be; None: nothing is said of it."""

    w1: float | None = None
    w2: float | None = None
    w3: float | None = None
    w4: float | None = None
    w4_other: float | None = None
    w5: float | None = None
    w6: float | None = None
    bytes_per_step: float = 250


TARGETS: dict[tuple[str, str], Targets] = {
    ("sqlite", "dbos"): Targets(w1=40, w2=8, w3=60, w4=8, w5=20, w6=50),
    ("postgresql", "dbos"): Targets(w1=40, w2=8, w3=45, w4=5, w4_other=5, w5=15, w6=50, bytes_per_step=300),
    ("postgresql", "absurd"): Targets(w1=8, w3=9, bytes_per_step=300),
}
"""By store and peer."""

RAW = {"sqlite": "plain apsw, WAL+FULL", "postgresql": "plain psycopg, prepared"}


def _shared(times: float | None) -> float | None:
    return None if times is None else times * SYNC_SHARE


def _rates(name: str, what: str, unit: str, times: float | None) -> tuple[Figure, ...]:
    figures: list[Figure] = []
    for colour, said in COLOURS.items():
        key = f"{name}.{colour}"
        wanted = times if colour == "async" else _shared(times)
        figures += (
            Figure(key, f"{what}, {said}", unit, times=wanted, beside=f"{name}.async", vs_raw=f"{key}.raw"),
            Figure(f"{key}.cpu", f"{what}, {said}: processor time each", "µs", "less"),
        )
    return tuple(figures)


def _growth(what: str, title: str, unit: str, sizes: tuple[str, str, str]) -> tuple[Figure, ...]:
    named = zip(("small", "middle", "large"), sizes, strict=True)
    return (
        *(Figure(f"W9.{what}.{name}", f"{title}, {size}", unit, "less") for name, size in named),
        Figure(f"W9.{what}.growth", "… growth of the cost of one", "×", "less", target=1.3),
    )


def _latencies(targets: Targets) -> tuple[Figure, ...]:
    return (
        Figure(
            "W4.async.p50",
            "start → result, in process, median",
            "ms",
            "less",
            times=targets.w4,
            vs_raw="W4.async.p50.raw",
        ),
        Figure("W4.async.p95", "start → result, in process, 95th percentile", "ms", "less"),
        Figure(
            "W4.threaded.p50",
            "start → result, in process, sync body, median",
            "ms",
            "less",
            times=_shared(targets.w4),
            beside="W4.async.p50",
            vs_raw="W4.threaded.p50.raw",
        ),
        Figure("W4.threaded.p95", "start → result, in process, sync body, 95th percentile", "ms", "less"),
        Figure("W4.queue.p50", "start → result, in process, through the peer's queue, median", "ms", "less"),
        Figure("W4.tuned.p50", "start → result, through the peer's queue at 50 polls a second, median", "ms", "less"),
        Figure(
            "W4.other.p50",
            "start → result, worker in another process, median",
            "ms",
            "less",
            times=targets.w4_other,
            beside="W4.tuned.p50" if targets.w4_other else "",
            vs_raw="W4.other.p50.raw",
        ),
        Figure("W4.other.p95", "start → result, worker in another process, 95th percentile", "ms", "less"),
    )


def _recoveries(targets: Targets) -> tuple[Figure, ...]:
    return (
        Figure("W5.total", "killed in step 6 of 10 → all completed by another worker", "s", "less"),
        Figure("W5.lease", "… of which the dead worker's lease", "s", "less"),
        Figure("W5.after", "… lease apart", "s", "less", times=targets.w5),
        Figure("W5.again", "… by the same worker started again, launch included", "s", "less"),
        Figure("W6.launch", "resume of a long run, from process launch", "s", "less", times=targets.w6),
        Figure("W6.least", "… a process that only connects, from its launch", "s", "less", beside="W6.launch"),
        Figure("W6.main", "… from the end of the imports", "ms", "less"),
        Figure("W6.claim", "… from the claim", "ms", "less"),
        Figure("W6.program", "… from the program's start", "ms", "less", target=50),
        Figure("W6.peak", "… peak memory of the process", "MB", "less"),
        Figure("W6.grown", "… of which since the imports", "MB", "less"),
    )


def figures(store: str = "sqlite", peer: str = "dbos") -> tuple[Figure, ...]:
    """The lines of the table of a store beside a peer."""
    targets, raw = TARGETS.get((store, peer)) or TARGETS[store, "dbos"], RAW[store]
    return (
        Figure("raw.commits", f"{raw}, 1-row commits", "/s"),
        Figure("raw.grouped", f"{raw}, rows in groups of 100", "/s"),
        Figure("raw.sync_p50", "fsync of 4 kB, median", "ms", "less"),
        Figure("raw.sync_p99", "fsync of 4 kB, 99th percentile", "ms", "less"),
        *_rates("W1", "1-step runs", "runs/s", targets.w1),
        *_rates("W2", "one run, steps in sequence", "steps/s", targets.w2),
        Figure("W2.async.raw", "… async, as a share of raw 1-row commits", "×", target=0.65),
        *_rates("W3", "100 runs at once", "steps/s", targets.w3),
        *_latencies(targets),
        *_recoveries(targets),
        Figure("W7.memory", "parked for an hour, memory per run", "B", "less", target=1_024),
        Figure("W7.cpu", "… idle processor", "%", "less", target=0.5),
        Figure("W7.writes", f"… idle {'write ' if store == 'sqlite' else ''}transactions", "/s", "less", target=1),
        Figure("W7.reads", "… idle reads", "/s", "less"),
        Figure("W7.looks", "… idle looks at data_version", "/s", "less"),
        Figure("W8.one", "bytes on disk per step, one long run", "B", "less", target=targets.bytes_per_step),
        Figure("W8.many", "bytes on disk per step, many runs of 20", "B", "less", target=targets.bytes_per_step),
        *_growth("steps", "processor time of a step, one run", "µs", ("few steps", "more", "many")),
        *_growth("wide", "processor time of a step, all at once", "µs", ("few steps", "more", "many")),
        *_growth("claim", "a claim", "ms", ("few rows", "more", "many")),
        *_growth("children", "processor time of a child", "µs", ("few children", "more", "many")),
    )


FIGURES: tuple[Figure, ...] = figures()
