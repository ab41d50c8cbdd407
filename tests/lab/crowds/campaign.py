"""Crowds of processes on one SQLite file as a level: no process starves, and waiting costs little."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

from tests.lab.crowds.crowd import Outcome, crowd
from tests.lab.levels import Effort, Report, level

SIZES = (2, 10, 30, 50)
LEAST_SHARE = 0.5
MOST_ASKS = 30.0
"""For one commit, by all processes together; about 8 are meant. A crowd of 30 that asks every 0.3 ms needs hundreds."""

COMMITS = 60
"""Of each process, on average: fewer say nothing about shares."""


def wrong_with(outcome: Outcome) -> list[str]:
    """What breaks the promise."""
    size, found = len(outcome.shares), list[str]()
    if outcome.least < LEAST_SHARE:
        found.append(f"one of {size} processes got {outcome.least:.2f} of its fair share")
    if outcome.refused:
        found.append(f"{outcome.refused} writes of {size} processes were refused")
    if outcome.asks > MOST_ASKS:
        found.append(f"{size} processes asked {outcome.asks:.0f} times for each commit")
    return found


@level("crowds", "crowds of processes on one SQLite file: each gets its share")
def crowded(effort: Effort) -> Report:
    """Crowds of every size in random order, again until the time is over."""
    report, rounds, least = Report(), 0, dict[int, float]()
    while not rounds or (rounds < (effort.seeds or 0) if effort.seconds is None else not effort.is_over):
        sizes = list(SIZES)
        random.Random(effort.first + rounds).shuffle(sizes)
        for size in sizes:
            with tempfile.TemporaryDirectory(prefix="holdfast-crowd-") as folder:
                outcome = crowd(Path(folder) / "crowd.db", size, size * COMMITS)
            least[size] = min(least.get(size, 1.0), outcome.least)
            shown = f"{outcome.least:.2f} of a share, {outcome.asks:.1f} asks, {outcome.longest:.1f} s at most"
            effort.say(f"{size} processes: {shown}")
            report.problems += [
                f"{each}: --only crowds --first {effort.first + rounds}" for each in wrong_with(outcome)
            ]
            report.figures[f"{size} processes: asks for a commit"] = round(outcome.asks, 1)
            report.figures[f"{size} processes: processor ms for a commit"] = round(outcome.processor, 2)
        rounds += 1
    report.figures |= {f"{size} processes: least share": round(least[size], 2) for size in SIZES}
    report.figures["commits"] = rounds * COMMITS * sum(SIZES)
    return report
