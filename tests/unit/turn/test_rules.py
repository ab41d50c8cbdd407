"""What becomes of steps in flight when a session takes a run up, or reads its journal again."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from holdfast import Retry, step
from holdfast.core import events as e
from holdfast.core.commands import RunStep
from holdfast.core.run import Run
from holdfast.core.turn import Turn
from holdfast.turn.rules import taken_up

AT = datetime(2026, 1, 1, tzinfo=UTC)


@step
async def plain() -> None: ...


@step(once=True)
async def charge() -> None: ...


def in_flight(*keys: str) -> tuple[Run, dict[str, RunStep]]:
    """A run with those steps in flight."""
    run = Run("r")
    specs = {key: (charge if key.startswith("charge") else plain).spec for key in keys}
    commands = {key: RunStep(key=key, spec=spec, args=b"[]", retry=Retry.none) for key, spec in specs.items()}
    events: list[e.AnyEvent] = [e.Started(workflow="w", value=msgspec.Raw(b"null"))]
    events += [e.StepScheduled(key=key, step=key.partition(":")[0], value=msgspec.Raw(b"null")) for key in keys]
    run.apply(Turn("r", 1, 1, AT, tuple(events), b""))
    return run, commands


def test_after_a_crash_a_once_step_is_in_doubt_and_others_begin_again() -> None:
    run, commands = in_flight("plain", "charge")
    outcomes, claimed, to_start = taken_up(run, commands, "w1")
    assert [(x.key, x.failure.type) for x in outcomes if isinstance(x, e.StepFailed)] == [("charge", "OutcomeUnknown")]
    assert (claimed.restarted, to_start) == (("plain",), ["plain"])


def test_after_a_refused_turn_bodies_that_run_are_left_alone() -> None:
    run, commands = in_flight("plain", "charge", "plain:1", "charge:1")
    outcomes, claimed, to_start = taken_up(run, commands, "w1", but={"plain", "charge"})
    assert [x.key for x in outcomes if isinstance(x, e.StepFailed)] == ["charge:1"]
    assert (claimed.restarted, to_start) == (("plain:1",), ["plain:1"])


def test_what_had_not_begun_begins_and_is_no_attempt_more() -> None:
    run, commands = in_flight("plain", "charge")
    outcomes, claimed, to_start = taken_up(run, commands, "w1", unbegun={"plain", "charge"})
    assert (outcomes, claimed.restarted, to_start) == ([], (), ["plain", "charge"])
