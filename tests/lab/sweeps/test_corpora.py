"""What `crash_sweep` finds in code that is wrong, and that it is silent about code that is right.

`HOLDFAST_SWEEPS` says how many sweeps of right workflows are made: 50 by default, 1,000 in a long campaign.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest

from holdfast.testing import Fake, SweepReport, crash_sweep
from tests.lab.sweeps import flows as _declared  # noqa: F401 they enter themselves
from tests.lab.sweeps.correct import CORRECT, Bank, bank
from tests.lab.sweeps.mistakes import MISTAKES

SWEEPS = int(os.environ.get("HOLDFAST_SWEEPS", "50"))
SHARES = 5
IN_PROCESS = {"the order of a set", "order by hash"}
"""Mistakes that another process shows; the others are looked for without, which is quicker."""


def sweep_of_mistake(name: str) -> SweepReport:
    return crash_sweep(MISTAKES[name](), processes=3 if name in IN_PROCESS else 0)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found(name: str) -> None:
    """Contract: each of the mistakes is found."""
    report = sweep_of_mistake(name)
    assert report.findings, f"not found: {name}"
    assert not report.skipped


def test_the_corpus_is_large(record_property: Callable[[str, object], None]) -> None:
    """Contract: at least 20 mistakes and 25 right workflows, no two alike."""
    record_property("figure", f"crash_sweep: {len(MISTAKES)} mistakes looked for, {len(CORRECT)} right workflows")
    assert len(MISTAKES) >= 20
    assert len(CORRECT) >= 25


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a charge without an idempotency key", "step pay is not safe to repeat"),
        ("time.time() as an argument", "the workflow calls time.time()"),
        ("random.choice()", "the workflow calls random.choice()"),
        ("the environment", "the workflow calls os.environ"),
        ("a file", "the workflow calls open()"),
        ("the order of a set", "in another process the run goes another way"),
        ("a counter in a module", "a second run in the same process goes another way"),
        ("a cache that a step fills and the workflow reads", "the run ends in another way"),
        ("a missing await", "the code is wrong: NotAwaited"),
        ("a task left behind", "the workflow returned while its task _twice was not done"),
        ("a bare except around a step", "caught the CancelledError and returned"),
        ("a flow: a component that is not safe to repeat", "step sell is not safe to repeat"),
        ("a flow: an undo that is not safe to repeat", "step unbook is not safe to repeat"),
        ("a flow: a script below it that asks the clock", "the workflow calls time.time()"),
        ("an argument that a step changes", "step add_line changes its argument and returns nothing"),
    ],
)
def test_a_finding_says_what_is_wrong(name: str, said: str) -> None:
    """Contract: the report names the mistake, not a symptom, where the sweep can tell."""
    assert said in str(sweep_of_mistake(name))


@pytest.mark.parametrize("share", range(SHARES))
def test_right_workflows_raise_no_alarm(share: int, rng: random.Random) -> None:
    """Contract: no false alarm in any sweep; the first of each workflow also replays in another process, the later
    ones also try pairs of disturbances."""
    names = list(CORRECT)
    for number in range(share, SWEEPS, SHARES):
        name = names[number % len(names)]
        make, signals = CORRECT[name]
        is_first = number < len(names)
        pairs = 0 if is_first else rng.randrange(1, 20)
        fakes = [Fake(bank, Bank())]
        report = crash_sweep(make(), signals=signals, fakes=fakes, pairs=pairs, processes=1 if is_first else 0)
        assert report.ok, f"sweep {number}, {name}:\n{report}"
        assert not report.skipped
