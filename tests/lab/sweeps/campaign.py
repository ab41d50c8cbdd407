"""Crash sweeps as a level: right workflows must raise no alarm, mistakes must all be found.

The first sweep of each right workflow also replays in another process; the later ones also try pairs of disturbances,
as many as the number of the sweep decides.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from holdfast.testing import Fake, SweepReport, crash_sweep
from tests.lab.levels import Effort, Report, level
from tests.lab.sweeps import flows as _declared  # noqa: F401 they enter themselves
from tests.lab.sweeps.correct import CORRECT, Bank, bank
from tests.lab.sweeps.mistakes import MISTAKES

FEW, MANY = 50, 1000
"""Sweeps of right workflows: in a short campaign, and in one that is given time."""

PORTION = 10
MOST_PAIRS = 20
IN_PROCESS = {"the order of a set", "order by hash"}
"""Mistakes that another process shows; the others are looked for without, which is quicker."""


def sweep_of_right(number: int) -> SweepReport:
    """The sweep of that number: the workflows take turns."""
    names = list(CORRECT)
    make, signals = CORRECT[names[number % len(names)]]
    is_first = number < len(names)
    pairs = 0 if is_first else random.Random(number).randrange(1, MOST_PAIRS)
    fakes = [Fake(bank, Bank())]
    return crash_sweep(make(), signals=signals, fakes=fakes, pairs=pairs, processes=1 if is_first else 0)


def sweep_of_mistake(name: str) -> SweepReport:
    """The sweep that has to find it."""
    return crash_sweep(MISTAKES[name](), processes=3 if name in IN_PROCESS else 0)


def _right(numbers: Sequence[int]) -> tuple[int, list[str]]:
    """The points tried, and what was wrong."""
    points, alarms = 0, list[str]()
    for number in numbers:
        report = sweep_of_right(number)
        points += len(report.points)
        if not report.ok or report.skipped:
            alarms.append(f"sweep {number}: {report}")
    return points, alarms


def _missed(name: str) -> bool:
    return not sweep_of_mistake(name).findings


@level("sweeps", "crash sweeps: right workflows raise no alarm, mistakes are found", share=2)
def swept(effort: Effort) -> Report:
    """As many sweeps as seeds were asked for, at most a thousand; told a time, a thousand, however long they take."""
    wanted = FEW if effort.seconds is None else MANY
    numbers = range(min(effort.seeds, MANY) if effort.seeds is not None else wanted)
    with ProcessPoolExecutor(effort.processes, mp_context=get_context("spawn")) as pool:
        done = list(pool.map(_right, [numbers[first : first + PORTION] for first in numbers[::PORTION]]))
        missed = [name for name, is_missed in zip(MISTAKES, pool.map(_missed, MISTAKES), strict=True) if is_missed]
    alarms = [alarm for _, found in done for alarm in found]
    return Report(
        figures={
            "sweeps of right workflows": len(numbers),
            "right workflows": len(CORRECT),
            "points disturbed": sum(points for points, _ in done),
            "false alarms": len(alarms),
            "mistakes looked for": len(MISTAKES),
            "mistakes found": len(MISTAKES) - len(missed),
        },
        sometimes={"a mistake was found": len(MISTAKES) - len(missed)},
        problems=[*alarms, *(f"a sweep does not find this mistake: {name}" for name in missed)],
    )
