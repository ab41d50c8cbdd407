"""Property tests as a level: machines that do anything in any order, against models; hypothesis looks for the way that
breaks them, and makes it short."""

from __future__ import annotations

import logging
import os
import traceback
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, run_state_machine_as_test

from tests.conformance.test_differential import Twins, TwinsOnPostgres
from tests.lab.levels import Effort, Report, level
from tests.lab.properties.blobs import Blobs
from tests.lab.properties.leases import Leases
from tests.lab.properties.texts import Texts
from tests.lab.properties.timers import Timers
from tests.lab.properties.values import Values

EXAMPLES, STEPS = 200, 50
PORTION = 25
"""Examples that one process tries before it looks at the time."""


class LeasesInMemory(Leases):
    """The model of the other tests, too, is tried."""

    kind = "memory"


MACHINES: dict[str, tuple[type[RuleBasedStateMachine], ...]] = {
    "stores: the same on SQLite and PostgreSQL as in memory": (Twins, Twins, Twins, TwinsOnPostgres),
    "leases and claims": (Leases, LeasesInMemory),
    "blobs in a folder": (Blobs,),
    "codec": (Values,),
    "flow files and expressions": (Texts,),
    "timers and retries": (Timers,),
}


def portion(
    name: str, which: int, number: int, examples: int, *, shortens: bool = True
) -> tuple[str, Counter[str], str]:
    """So many examples of one machine from a seed: what was counted, and what broke, made as short as can be."""
    counts: Counter[str] = Counter()
    machine = MACHINES[name][which]

    @seed(number)
    class Counted(machine):  # type: ignore[valid-type, misc]
        """The machine, with its examples and steps counted."""

        def teardown(self) -> None:
            counts["examples"] += 1
            super().teardown()

        @invariant()
        def counted(self) -> None:
            counts["steps"] += 1

    options = settings(
        max_examples=examples,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink] if shortens else [Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    logging.disable()
    try:
        run_state_machine_as_test(Counted, settings=options)
    except Exception as error:  # noqa: BLE001 whatever it is, it is what was looked for
        told = [*traceback.format_exception_only(error), *getattr(error, "__notes__", ())]
        return name, counts, f"{name}, seed {number}: {os.linesep.join(told).strip()}"
    finally:
        logging.disable(logging.NOTSET)
    return name, counts, ""


def void(examples: Mapping[str, int]) -> list[str]:
    """Which machines were tried less often than a change has to pass."""
    return [f"void: {n} examples of {name}, {EXAMPLES} are the least" for name, n in examples.items() if n < EXAMPLES]


@level("properties", "machines that do anything in any order, each against a model", share=2)
def properties(effort: Effort) -> Report:
    """Every machine as often as a change has to pass, and then again for as long as there is time."""
    report = Report()
    examples: Counter[str] = Counter(dict.fromkeys(MACHINES, 0))
    steps = round_ = 0
    wanted = EXAMPLES if effort.seeds is None else effort.seeds
    with ProcessPoolExecutor(effort.processes) as pool:
        while not round_ or (effort.seconds is not None and not effort.is_over):
            tasks = [
                pool.submit(portion, name, part % len(kinds), effort.first + 1000 * round_ + part, PORTION)
                for name, kinds in MACHINES.items()
                for part in range(-(-wanted // PORTION))
            ]
            for task in as_completed(tasks):
                name, counts, problem = task.result()
                examples[name] += counts["examples"]
                steps += counts["steps"]
                report.problems += [problem] if problem else []
            round_ += 1
            if report.problems:
                break
    if effort.seeds is None and not report.problems:
        report.problems = void(examples)
    report.figures = {**{f"examples: {name}": count for name, count in examples.items()}, "steps": steps}
    report.sometimes = {f"{name} was tried": count for name, count in examples.items()}
    return report
