"""Twenty-two scenarios, and a crash before and after every call their workers make to the store; then pairs of crashes.

A scenario is first played without faults: that gives the calls. Then it is played once for each of them.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

from tests.lab.levels import Effort, Report, level
from tests.lab.sim.faults import Fault, Kind, Where
from tests.lab.sim.scenario import RunPlan, Scenario, SchedulePlan
from tests.lab.sim.workflows import Node
from tests.lab.sim.world import Result, World

PAIRS = 600
"""So many pairs of crashes, unless the effort is measured in seconds."""


def _one(plan: list[Node], **options: object) -> Scenario:
    return Scenario(2, 100, [RunPlan("run-0", plan, **options)])  # type: ignore[arg-type]


CANONICAL: dict[str, Scenario] = {
    "sequence": _one([["step", "a", 5, 0], ["step", "b", 5, 0], ["step", "c", 0, 0]]),
    "parallel": _one([["parallel", ["step", "a", 5, 0], ["step", "b", 1, 0], ["step", "c", 30, 0]]]),
    "child": _one([["child", ["step", "a", 5, 0], ["sleep", 30]], ["step", "b", 0, 0]]),
    "signal": _one([["signal"], ["step", "a", 1, 0], ["signal"]], signals=[0.1, 0.3]),
    "timer": _one([["sleep", 30], ["sleep", 1300], ["step", "a", 1, 0]]),
    "cancel": _one([["step", "a", 5, 0], ["step", "b", 600, 0], ["step", "c", 5, 0]], cancels_at=0.3),
    "retry": _one([["step", "a", 5, 2], ["step", "b", 5, 1]]),
    "at most once": _one([["step", "a", 1, 0], ["once", "b", 20], ["step", "c", 1, 0]]),
    "saga": _one([["saga", ["step", "a", 1, 0], ["step", "b", 5, 0]], ["step", "c", 1, 0]]),
    "machine": Scenario(2, 100, [RunPlan("run-0", [], parcels=3)]),
    "beginning anew": _one([["step", "a", 1, 0], ["step", "b", 5, 0]], rounds=2),
    "flow": Scenario(2, 100, [RunPlan("run-0", [], flowers=2)]),
    "batch": _one([["step", "a", 5, 0]], items=3),
    "batch in rounds": _one([["step", "a", 5, 0], ["step", "b", 1, 0]], items=3, in_rounds=True),
    "batch of a run": _one([["many", 0, 2, "depth", ["a", 5], ["b", 1], ["c", 0]], ["step", "d", 1, 0]]),
    "start with a signal": _one([["signal"], ["step", "a", 1, 0]], is_opened=True),
    "left bodies": Scenario(
        2, 100, [RunPlan("run-0", [["step", "a", 5, 0], ["gamble", "b", 600, 30, 300]])], knocks=1.0
    ),
    "stream": _one([["tell", "a", 6, 20, 1], ["step", "b", 1, 0]], is_read=True),
    "schedule": Scenario(
        2, 100, [], schedules=[SchedulePlan("s", [["step", "a", 1200, 0]], overlap="buffer_one", missed="all", lasts=3)]
    ),
    "limit": _one([["squeeze", ["a", 40, 0], "0", "1", "2"], ["step", "b", 1, 0]]),
    "queue": Scenario(
        2,
        100,
        [RunPlan(f"run-{number}", [["step", f"{number}", 20, 0], ["sleep", 30]]) for number in (0, 1)],
        at_once=1,
    ),
    "timeout": _one([["race", 30, "a", 600, 0], ["patient", 50], ["step", "b", 1, 0]], signals=[0.4]),
}

SEED = 7
DUSK = 2.5


def played(name: str, faults: Sequence[Fault]) -> Result:
    """A scenario with these faults."""
    return World(SEED, scenario=CANONICAL[name], faults=list(faults), dusk=DUSK).run()


def crash_points(name: str) -> list[Fault]:
    """A crash before and one after each call of its workers, as long as a run was open."""
    calm = played(name, [])
    assert not calm.problems, calm.problems
    wheres: tuple[Where, ...] = ("write", "other")
    places: list[tuple[Where, int]] = [(where, number) for where in wheres for number in range(calm.until_end[where])]
    kinds: tuple[Kind, ...] = ("crash before", "crash after")
    return [Fault(where, number, kind, float(number % 2)) for where, number in places for kind in kinds]


def pairs(name: str, points: Sequence[Fault], count: int, rng: random.Random) -> Iterator[tuple[Fault, ...]]:
    """A crash, and one while what follows it recovers."""
    for _ in range(count):
        first = rng.choice(points)
        gap = 1 + int(rng.expovariate(1 / 6))
        yield first, Fault(first.where, first.at + gap, rng.choice(("crash before", "crash after")), rng.random() < 0.5)


def try_all(name: str, what: Iterable[Sequence[Fault]]) -> tuple[int, int, list[str]]:
    """How many were tried, how many crashes that were, and what went wrong."""
    tried = crashes = 0
    problems: list[str] = []
    gc.disable()
    for faults in what:
        result = played(name, faults)
        tried += 1
        crashes += result.met["crash"]
        if result.problems:
            problems.append(f"{name}, {'; '.join(map(str, faults))}: {result.problems[0]}")
        if tried % 100 == 0:
            gc.collect()
    gc.enable()
    return tried, crashes, problems


def sweep(name: str, count: int, seed: int) -> tuple[int, int, int, list[str]]:
    """All single crashes of a scenario, and a sample of pairs."""
    points = crash_points(name)
    singles, crashes, problems = try_all(name, [[point] for point in points])
    both, more, others = try_all(name, pairs(name, points, count, random.Random(f"{seed} {name}")))
    return singles, both, crashes + more, problems + others


@level(
    "crash points",
    "twenty-two scenarios, a crash before and after every call to the store, and pairs of crashes",
    share=2,
)
def crash_point_enumeration(effort: Effort) -> Report:
    """See the module. With more time, and no number of seeds, come more pairs."""
    singles = both = crashes = rounds = 0
    problems: list[str] = []
    began = time.monotonic()
    with ProcessPoolExecutor(effort.processes) as pool:
        while True:
            share = -(-PAIRS // len(CANONICAL))
            tasks = [pool.submit(sweep, name, share, effort.first + rounds) for name in CANONICAL]
            for task in tasks:
                one, two, killed, wrong = task.result()
                singles, both, crashes, problems = singles + one, both + two, crashes + killed, problems + wrong
            rounds += 1
            if effort.seconds is None or effort.seeds is not None or effort.is_over:
                break
    return Report(
        figures={
            "scenarios": len(CANONICAL),
            "crash points, each tried": singles // rounds,
            "pairs of crashes tried": both,
            "seconds": round(time.monotonic() - began, 1),
        },
        sometimes={"worker killed": crashes},
        problems=problems,
    )
