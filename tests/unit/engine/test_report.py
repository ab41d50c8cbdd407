"""What a step costs when nothing listens to it."""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from holdfast import App, Hook, facts, step, workflow
from holdfast.ports.facts import Fact
from holdfast.testing import Sim

STEPS = 50


@step
async def add(number: int) -> int:
    return number + 1


@workflow
async def adds(steps: int) -> int:
    number = 0
    for _ in range(steps):
        number = await add(number)
    return number


class Ear(Hook):
    def __init__(self) -> None:
        self.heard: Counter[str] = Counter()

    def on(self, fact: Fact) -> None:
        self.heard[type(fact).__name__] += 1


@contextmanager
def calls(counted: Counter[str]) -> Iterator[None]:
    """Counts the calls of functions that tell, by name."""

    def seen(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and (name.startswith("holdfast.adapters.telemetry") or name == "holdfast.engine.report"):
            counted[frame.f_code.co_name] += 1

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        yield
    finally:
        sys.setprofile(before)


def played(steps: int, *hooks: Hook) -> Counter[str]:
    """The calls of one run."""
    counted: Counter[str] = Counter()
    with Sim(App(workflows=[adds], hooks=hooks)) as sim:
        assert sim.start(adds(1)).result() == 1
        with calls(counted):
            assert sim.start(adds(steps)).result() == steps
    return counted


def test_a_step_that_nothing_listens_to_makes_no_call() -> None:
    """Promise: with the log at WARNING and no hook, neither a step nor its turn calls anything that tells."""
    logger = logging.getLogger("holdfast.worker")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        few, many = played(1), played(STEPS)
    finally:
        logger.setLevel(level)
    assert not many - few


def test_every_step_is_told_to_a_hook() -> None:
    """Promise: the same run, listened to."""
    ear = Ear()
    played(STEPS, ear)
    assert ear.heard["StepStarted"] == ear.heard["StepCompleted"] == STEPS + 1
    assert ear.heard[facts.RunEnded.__name__] == 2
