"""Damaged rows as a level: garbage in each column of a store, and whether it costs more than the row it is in."""

from __future__ import annotations

import asyncio
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from tests.lab.damage.play import play
from tests.lab.levels import Effort, Report, level, unheard

SEEDS = 150
SOMETIMES = (
    "sqlite",
    "postgres",
    "a run stayed damaged",
    "a run was paused",
    "a run was killed",
    "a worker was damaged",
)


def one(seed: int) -> tuple[list[str], str, dict[str, int]]:
    """One seed, in a process of the pool."""
    with unheard():
        damages, problem, counts = asyncio.run(play(seed))
    return [f"{each.table}.{each.column}" for each in damages], problem, counts


@level("damage", "garbage in the columns of a store costs the row it is in, and nobody else", share=0.5)
def damage(effort: Effort) -> Report:
    """As many seeds as a change has to pass, and then more for as long as there is time."""
    report = Report()
    columns: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    done = 0
    wanted = SEEDS if effort.seeds is None else effort.seeds
    with ProcessPoolExecutor(effort.processes) as pool:
        while done < wanted or (effort.seconds is not None and not effort.is_over):
            first = effort.first + done
            for damaged, problem, came_up in pool.map(one, range(first, first + 50), chunksize=5):
                columns.update(damaged)
                counts.update(came_up)
                report.problems += [problem] if problem else []
                done += 1
            if report.problems:
                break
    report.figures = {"stores": done, "columns that were damaged": len(columns), "values written": columns.total()}
    report.sometimes = {name: counts[name] for name in SOMETIMES}
    return report
