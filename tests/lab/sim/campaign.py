"""The simulation as a level: one seed after another, in as many processes as there are cores.

Every 50th seed runs twice and has to leave the same trace; every 40th also runs on SQLite without hints, and has to
leave the same journals as in memory; every 20th is also a healthy fleet far from its lease manager. What fails is
shrunk, kept as a file, and said.
"""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field

from tests.lab.levels import Effort, Report, level
from tests.lab.sim.healthy import drawn
from tests.lab.sim.meeting import CONSTRUCTS
from tests.lab.sim.shrinking import keep, shrunk
from tests.lab.sim.sqlite import on_sqlite
from tests.lab.sim.world import Result, World

PORTION = 50
TWICE = 50
ON_SQLITE = 40
HEALTHY = 20
"""Every so many seeds are also tried as a fleet in which nothing fails, but that its lease manager is far away."""
SEEDS = 10_000
"""How many a campaign tries that is told neither a number nor a time."""

SOMETIMES = (
    "fenced append",
    "takeover",
    "ABA re-claim",
    "double crash",
    "ambiguous commit resolved",
    "signal-vs-park race",
    "overdue timer",
    "quarantine",
    "divergence",
    "blob GC race",
    "same-key concurrent start",
    "waited for a limit",
    "slot started",
    "slot skipped",
    "slot missed",
    "slot buffered",
    "second to decide a slot",
    "batch of a run completed",
    "start that brought its signal",
    "reboot",
    "twin worker",
    "outage",
    "owner written back",
    "end refused with a once step in flight",
    *CONSTRUCTS,
)
"""A campaign that never met one of these is empty."""


@dataclass
class Portion:
    """What some seeds came to."""

    seeds: int = 0
    twice: int = 0
    on_sqlite: int = 0
    healthy: int = 0
    runs: int = 0
    moves: int = 0
    boundaries: int = 0
    faults: int = 0
    virtual: float = 0.0
    processor: float = 0.0
    met: Counter[str] = field(default_factory=Counter[str])
    problems: list[str] = field(default_factory=list[str])

    def add(self, other: Portion) -> None:
        """Both together."""
        counted = ("seeds", "twice", "on_sqlite", "healthy", "runs", "moves", "boundaries", "faults")
        for name in (*counted, "virtual", "processor"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.met += other.met
        self.problems += other.problems

    def count(self, result: Result) -> None:
        """One seed more."""
        self.seeds += 1
        self.runs += result.runs
        self.moves += result.moves
        self.boundaries += result.boundaries.total()
        self.faults += len(result.struck)
        self.virtual += result.seconds
        self.met += result.met


def portion(first: int, count: int) -> Portion:
    """Tries these seeds."""
    done = Portion()
    began = time.process_time()
    gc.disable()  # between seeds is time enough
    for seed in range(first, first + count):
        result = World(seed).run()
        done.count(result)
        done.problems += problems_of(result)
        if seed % TWICE == 0 and not result.problems:
            done.twice += 1
            if World(seed).run().trace != result.trace:
                done.problems.append(f"seed {seed} does not run twice in the same way")
        if seed % ON_SQLITE == 0:
            done.on_sqlite += 1
            done.problems += compared(seed)
        if seed % HEALTHY == 0:
            done.healthy += 1
            fleet = drawn(seed)
            done.problems += [f"seed {seed}, as a healthy fleet: {problem}" for problem in fleet.problems()]
            done.met["owner written back"] += fleet.met["owner written back"]
    gc.enable()
    gc.collect()
    done.processor = time.process_time() - began
    return done


def problems_of(result: Result) -> list[str]:
    """What is wrong with a seed, in a few lines; the seed is kept."""
    if not result.problems:
        return []
    least = shrunk(result.seed, result)
    path = keep(least)
    faults = "; ".join(map(str, least.struck)) or "none"
    what = f"seed {result.seed}: {least.problems[0]}\n     faults that matter: {faults}"
    return [f"{what}\n     kept in tests/lab/seeds/{path.name}; see it with `python3 dev.py lab --seed {result.seed}`"]


def compared(seed: int) -> list[str]:
    """S21: the same journals on every store. Stores differ in which hints they give, so there are none; in how soon
    they see a run that was due before the clock was set back, so it is not; and in which tree retention leaves behind.
    """
    sqlite, memory = on_sqlite(seed, hints="none"), World(seed, hints="none").run()
    for name, found in (("on SQLite", sqlite), ("without hints", memory)):
        if found.problems:
            return [f"seed {seed} {name}: {found.problems[0]}"]
    was_set_back = any(fault.kind == "jump" and fault.amount < 0 for fault in memory.struck)
    if was_set_back or memory.scenario.keep is not None:
        return []
    for name in sorted(memory.journals.keys() & sqlite.journals.keys()):
        if memory.journals[name] != sqlite.journals[name]:
            return [f"S21: seed {seed}: the journal of {name} is another one on SQLite than in memory"]
    return []


@level("simulation", "the real worker, engine and client on virtual time, one seed after another", share=9)
def simulation(effort: Effort) -> Report:
    """See the module."""
    began, done, said = time.monotonic(), Portion(), time.monotonic()
    for part in portions(effort):
        done.add(part)
        for problem in part.problems:
            effort.say(f"   {problem}")
        if time.monotonic() - said > 15:
            said = time.monotonic()
            effort.say(f"   {done.seeds:,} seeds, {done.met['crash']:,} crashes, {len(done.problems)} problems")
    seconds = time.monotonic() - began
    return Report(
        figures={
            "seeds": done.seeds,
            "seeds a second and core": round(done.seeds / max(done.processor, 0.001), 1),
            "seconds": round(seconds, 1),
            "runs": done.runs,
            "virtual hours": round(done.virtual / 3600, 1),
            "calls to the store": done.boundaries,
            "faults injected": done.faults,
            "workers killed": done.met["crash"],
            "workers stalled past their lease": done.met["zombie"],
            "answers lost": done.met["answer lost"],
            "seeds run twice, same trace": done.twice,
            "seeds run on SQLite too, same journals": done.on_sqlite,
            "seeds run as healthy fleets, far from their lease manager": done.healthy,
        },
        sometimes={name: done.met[name] for name in SOMETIMES},
        problems=done.problems,
    )


def portions(effort: Effort) -> Iterator[Portion]:
    """Portions as they are done, until it is enough."""
    limit = effort.seeds if effort.seeds is not None else SEEDS if effort.seconds is None else None
    end = None if limit is None else effort.first + limit
    following = effort.first
    with ProcessPoolExecutor(effort.processes) as pool:
        under_way: set[Future[Portion]] = set()
        while True:
            while len(under_way) < 2 * effort.processes and not effort.is_over and (end is None or following < end):
                count = PORTION if end is None else min(PORTION, end - following)
                under_way.add(pool.submit(portion, following, count))
                following += count
            if not under_way:
                return
            finished, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            yield from (each.result() for each in finished)
