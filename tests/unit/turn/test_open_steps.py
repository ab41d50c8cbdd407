"""What a fold keeps of its open steps, so that no turn has to look at all of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import pytest

from holdfast.core import events as e
from holdfast.core.doing import doing
from holdfast.core.fold import folded, unfolded
from holdfast.core.opened import OpenStep
from holdfast.core.program import Program
from holdfast.core.run import Run
from holdfast.turn.park import next_wake
from holdfast.turn.rules import brought_by_time
from tests.unit.core.journals import BOOM, Journal, at, attempt_failed, done, raw, started, step

KEYS = [f"s:{number}" for number in range(6)]


def some_turn(run: Run, chance: random.Random) -> list[e.AnyEvent]:
    """Something that may happen to the steps of this run."""
    key = chance.choice(KEYS)
    known = run.steps.get(key)
    whole: list[Callable[[], list[e.AnyEvent]]] = [
        lambda: [e.RetryPlanned(failure=BOOM, at=at(500), of=9), e.PassStarted(number=run.passes + 1)],
        lambda: [e.Continued(workflow="order", value=raw("{}"))],
    ]
    if chance.random() < 0.03:
        return chance.choice(whole)()
    if known is None or (known.is_abandoned and chance.random() < 0.5):
        return [step(key)]
    if known.retry_at is not None and not known.is_abandoned and chance.random() < 0.5:
        return [e.AttemptStarted(key=key, attempt=known.attempt + 1)]
    return chance.choice(
        [
            [done(key)],
            [e.StepFailed(key=key, failure=BOOM)],
            [attempt_failed(key, known.attempt, chance.randrange(1, 99))],
            [e.StepAbandoned(key=key)],
            [e.Claimed(worker="w", restarted=tuple(x.key for x in run.in_flight))],
        ]
    )


def test_it_follows_from_the_steps_at_every_row(rng: random.Random) -> None:
    """Contract: whatever happened in whatever order, it is what a look at all open steps would find; and a stored fold,
    which does not hold it, gives it back."""
    most = 0
    for _ in range(60):
        journal = Journal(started())
        journal.claim()
        for _ in range(40):
            journal.turn(*some_turn(journal.run, rng))
            run = journal.run
            steps = run.steps.values()
            assert run.retries == {x.key: x.retry_at for x in steps if x.retry_at is not None and not x.is_abandoned}
            assert run.abandoned == sum(x.is_abandoned for x in steps)
            assert b"retries" not in bytes(folded(run))
            assert unfolded("r", folded(run)) == run
            most = max(most, len(run.retries) + run.abandoned)
    assert most >= 4  # there was something to keep


class Watched(dict[str, OpenStep]):
    """Open steps, and how many of them somebody looked at."""

    looks = 0

    def values(self) -> Any:
        for one in super().values():
            self.looks += 1
            yield one

    def items(self) -> Any:
        raise AssertionError("nobody goes through all steps")

    __iter__ = items


class NoTimers:
    """As much of a program as is asked."""

    def next_timer(self) -> None:
        return None

    @property
    def is_plain(self) -> bool:
        return False

    def due_timers(self, now: object) -> list[str]:
        return []

    def stuck_at(self) -> str | None:
        return None

    def awaited_sends(self) -> dict[str, str]:
        return {}


@pytest.mark.parametrize("retrying", [0, 3])
def test_a_turn_looks_at_as_many_steps_however_many_are_open(retrying: int) -> None:
    """Promise: ten thousand steps at once cost ten times as much as a thousand, not a hundred times: what every turn
    asks (what is due, when to wake, what to show) is answered without going through all that are open."""
    looks: list[int] = []
    for number in (10, 1000):
        journal = Journal(started())
        journal.claim(*(step(f"s:{n}") for n in range(number)))
        journal.turn(*(attempt_failed(f"s:{n}", retry=60 + n) for n in range(retrying)))
        run = journal.run
        run.steps = watched = Watched(run.steps)
        program = cast("Program", NoTimers())
        assert doing(run).more == number - 4
        assert next_wake(run, program) == (at(60) if retrying else None)
        due = brought_by_time(run, program.due_timers(at(61)), at(61), timedelta(minutes=1))
        assert [x.key for x in due if isinstance(x, e.AttemptStarted)] == ["s:0", "s:1"][:retrying]
        looks.append(watched.looks)
    assert looks[0] == looks[1] <= 8
