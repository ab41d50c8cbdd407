"""`Retry(on=…, never=…, when=…)`: the error decides whether there is another attempt."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Retry, RunFailed, StepFailed, step, workflow
from holdfast.core.retry import Errors
from holdfast.errors import InvalidRetry
from holdfast.testing import Sim


class Flaky(Exception): ...


class Declined(Exception): ...


tries: list[str] = []


@pytest.mark.parametrize(
    ("policy", "error", "attempts"),
    [
        (Retry(3, on=Flaky), Flaky, 3),
        (Retry(3, on=(Flaky, OSError)), ConnectionError, 3),
        (Retry(3, on=Flaky), ValueError, 1),
        (Retry(3, never=ValueError), ValueError, 1),
        (Retry(3, never=ValueError), Flaky, 3),
        (Retry(3, on=OSError, never=ConnectionError), ConnectionError, 1),
        (Retry(3, when=lambda error: "again" in str(error)), Flaky, 3),
        (Retry(3, when=lambda error: "else" in str(error)), Flaky, 1),
        (Retry(3, on=Flaky, when=lambda error: "else" in str(error)), Flaky, 1),
        (Retry(3), Declined, 1),
        (Retry(3, never=ValueError), Declined, 1),
        (Retry(3, on=Declined), Declined, 3),
        (Retry(3, when=lambda error: isinstance(error, Declined)), Declined, 3),
    ],
)
def test_the_error_decides(policy: Retry, error: type[Exception], attempts: int) -> None:
    """Promise: as many attempts as the policy allows for that error; what is declared arrives as itself, also after
    attempts that failed."""
    tries.clear()

    @step(retry=policy, raises=Declined)
    async def fails() -> None:
        tries.append("x")
        raise error("again")

    @workflow
    async def run() -> str:
        try:
            await fails()
        except Declined:
            return "Declined"
        except StepFailed as failed:
            return failed.type.rpartition(".")[2]
        return ""

    with Sim() as sim:
        made = sim.start(run())
        sim.advance("1h")
        assert made.result() == error.__name__
    assert len(tries) == attempts


def test_a_predicate_that_raises_ends_the_step_with_its_own_error() -> None:
    def breaks(error: Exception) -> bool:
        raise RuntimeError(f"predicate of {error}")

    @step(retry=Retry(3, when=breaks))
    async def fails() -> None:
        raise Flaky("x")

    @workflow
    async def run() -> None:
        await fails()

    with Sim() as sim, pytest.raises(RunFailed, match="predicate of x"):
        sim.start(run()).result()


def test_the_workflow_keeps_the_same_rule() -> None:
    """Promise: an error outside steps is retried by the workflow's own policy, as it says of errors."""
    passes: list[int] = []

    @workflow(retry=Retry(3, on=Flaky))
    async def run(flaky: bool) -> None:
        passes.append(1)
        raise Flaky("x") if flaky else ValueError("x")

    for flaky, count in ((True, 3), (False, 1)):
        passes.clear()
        with Sim() as sim:
            made = sim.start(run(flaky))
            sim.advance("1h")
            with pytest.raises(RunFailed):
                made.result()
        assert len(passes) == count


@pytest.mark.parametrize(
    "wrong", [{"on": "Flaky"}, {"never": [Flaky]}, {"on": (Flaky, 1)}, {"when": 5}, {"on": KeyboardInterrupt}]
)
def test_a_wrong_policy_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidRetry, match=f"Retry: {next(iter(wrong))}"):
        Retry(3, **wrong)


def test_the_type_says_one_or_several() -> None:
    one: Errors = Flaky
    several: Errors = (Flaky, OSError)
    assert (Retry(on=one).on, Retry(on=several).on) == ((Flaky,), several)
