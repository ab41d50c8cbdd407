"""From a failing seed to the few faults that matter, and to a file that keeps it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import count
from pathlib import Path

from holdfast.adapters.memory.store import MemoryStore
from holdfast.ports.store import Store
from tests.lab.sim.faults import Fault
from tests.lab.sim.loop import SimulatedClock
from tests.lab.sim.scenario import RunPlan, Scenario, SchedulePlan
from tests.lab.sim.world import Result, World

SEEDS = Path(__file__).resolve().parents[1] / "seeds"
TRIES = 60


def shrunk(seed: int, first: Result, open_store: Callable[[SimulatedClock], Store] = MemoryStore) -> Result:
    """The seed with as few faults as still make it fail, in the same way if possible."""
    wanted = promise_of(first)
    best = first
    faults = list(first.struck)
    tries = 0
    size = max(1, len(faults) // 2)
    while size >= 1 and tries < TRIES:
        for start in range(0, len(faults), size):
            fewer = faults[:start] + faults[start + size :]
            tries += 1
            result = World(seed, faults=fewer, open_store=open_store).run()
            if result.problems and promise_of(result) == wanted:
                faults, best = fewer, result
                break
        else:
            size //= 2
    return best


def promise_of(result: Result) -> str:
    """Which promise was broken first."""
    return result.problems[0].split(":")[0] if result.problems else ""


def keep(result: Result, folder: Path = SEEDS) -> Path:
    """Writes the seed to a file that the suite runs from then on; what is kept already stays. (The grammar grows, so
    the same seed may fail again in another story.)"""
    faults = [fault.to_json() for fault in result.struck]
    problem = result.problems[0].splitlines()[0][:300] if result.problems else ""
    data = {"seed": result.seed, "found": problem, "faults": faults, "scenario": asdict(result.scenario)}
    text = json.dumps(data, indent=1, ensure_ascii=False) + "\n"
    for path in _names(folder, result.seed):
        if not path.exists():
            path.write_text(text, encoding="utf-8")
        if path.read_text(encoding="utf-8") == text:
            return path
    raise AssertionError("there is always another name")


def _names(folder: Path, seed: int) -> Iterator[Path]:
    yield folder / f"{seed}.json"
    yield from (folder / f"{seed}-{number}.json" for number in count(2))


def kept(folder: Path = SEEDS) -> Iterator[tuple[str, int, Scenario, list[Fault]]]:
    """Every seed that was ever found to fail: its name, its number, its scenario and the faults that mattered. (The
    scenario is kept too: the grammar grows, and then the seed alone would make another one.)"""
    for path in sorted(folder.glob("*.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        runs = [RunPlan(**run) for run in data["scenario"].pop("runs")]
        plans = [SchedulePlan(**plan) for plan in data["scenario"].pop("schedules", [])]
        scenario = Scenario(runs=runs, schedules=plans, **data["scenario"])
        yield path.stem, data["seed"], scenario, [Fault(**fault) for fault in data["faults"]]
