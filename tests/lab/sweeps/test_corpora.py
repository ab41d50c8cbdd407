"""What `crash_sweep` finds in code that is wrong, and that it is silent about code that is right.

Half of the right workflows are swept at every commit, a different half at the next; the lab sweeps all of them, again
and again, with pairs of disturbances.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from tests.lab.levels import Effort
from tests.lab.sweeps import campaign
from tests.lab.sweeps.campaign import sweep_of_mistake, sweep_of_right
from tests.lab.sweeps.correct import CORRECT
from tests.lab.sweeps.mistakes import MISTAKES
from tests.support.examples import count

SHARES = 5
SWEEPS = count(campaign.MANY, few=len(CORRECT))


SAID = {
    "a charge without an idempotency key": "step pay is not safe to repeat",
    "time.time() as an argument": "the workflow calls time.time()",
    "random.choice()": "the workflow calls random.choice()",
    "the environment": "the workflow calls os.environ",
    "a file": "the workflow calls open()",
    "the order of a set": "in another process the run takes a different path",
    "a counter in a module": "a second run in the same process takes a different path",
    "a cache that a step fills and the workflow reads": "the run ends differently",
    "a missing await": "the code is wrong: NotAwaited",
    "a task left behind": "the workflow returned while its task _twice was not done",
    "a bare except around a step": "caught the CancelledError and returned",
    "a flow: a component that is not safe to repeat": "step sell is not safe to repeat",
    "a flow: an undo that is not safe to repeat": "step unbook is not safe to repeat",
    "a flow: a script below it that asks the clock": "the workflow calls time.time()",
    "an argument that a step changes": "step add_line changes its argument and returns nothing",
}
"""What the report names: the mistake and not a symptom, where the sweep can tell."""


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_found(name: str) -> None:
    """Contract: each of the mistakes is found, and the report says what is wrong."""
    report = sweep_of_mistake(name)
    assert report.findings, f"not found: {name}"
    assert not report.skipped
    assert SAID.get(name, "") in str(report)


def test_what_reports_say_is_about_mistakes_of_the_corpus() -> None:
    """Contract: nothing is expected of a mistake that is not looked for."""
    assert SAID.keys() <= MISTAKES.keys()


def test_the_corpus_is_large(record_property: Callable[[str, object], None]) -> None:
    """Contract: at least 20 mistakes and 25 right workflows, no two alike."""
    record_property("figure", f"crash_sweep: {len(MISTAKES)} mistakes looked for, {len(CORRECT)} right workflows")
    assert len(MISTAKES) >= 20
    assert len(CORRECT) >= 25


@pytest.mark.examples
@pytest.mark.parametrize("share", range(SHARES))
def test_right_workflows_raise_no_alarm(share: int, rng: Random) -> None:
    """Contract: no false alarm in any sweep; the first of each workflow also replays in another process, the later
    ones also try pairs of disturbances."""
    numbers = range(share, SWEEPS, SHARES)
    for number in rng.sample(numbers, count(len(numbers), few=len(numbers) // 2)):
        report = sweep_of_right(number)
        assert report.ok, f"sweep {number}:\n{report}"
        assert not report.skipped


def test_the_level_counts_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract: figures of right workflows and of mistakes; one that is missed, or a false alarm, is a problem."""
    names = ["a charge without an idempotency key", "a mutable default"]
    monkeypatch.setattr(campaign, "ProcessPoolExecutor", _here)
    monkeypatch.setattr(campaign, "MISTAKES", {name: MISTAKES[name] for name in names})
    report = campaign.swept(Effort(seeds=2))
    assert not report.problems
    assert (report.figures["sweeps of right workflows"], report.figures["false alarms"]) == (2, 0)
    assert (report.figures["mistakes looked for"], report.figures["mistakes found"]) == (2, 2)
    right = CORRECT["steps in a row"][0]
    monkeypatch.setattr(campaign, "MISTAKES", {"it is none": right})
    monkeypatch.setattr(campaign, "CORRECT", {"it is one": (MISTAKES[names[0]], ())})
    report = campaign.swept(Effort(seeds=1))
    assert (report.figures["mistakes found"], report.figures["false alarms"]) == (0, 1)
    assert len(report.problems) == 2
    assert "it is none" in report.problems[1]


def _here(*_: object, **__: object) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1)
