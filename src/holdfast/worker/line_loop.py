"""The line loop: declares the limits of this worker's steps, and tends lines in which steps wait.

Freeing a place wakes a waiter. The loop is for cases without a wake-up: a worker with places died, a woken waiter never
came, a wake-up was lost. It looks every second while something waits, later less often, and not at all while no step of
this worker has a limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from holdfast.authoring.limit import all_limits
from holdfast.authoring.script.functions import is_a
from holdfast.authoring.script.steps import AnyStep
from holdfast.core.limit import Rule
from holdfast.errors import HoldfastError
from holdfast.ports.facts import Trouble
from holdfast.upkeep.limit_book import declare
from holdfast.worker.failures import Failures
from holdfast.worker.seat import Seat

LOOK = 1.0
"""Seconds between two looks while something waits."""

LONGEST = 30.0
"""Maximum seconds between two looks, if something has waited for long."""

MANY = 60
"""Number of looks before they become rare."""

POLLS = 5
"""Polls between two looks while nothing waits, in case workers with waiting steps died."""


def rules_of(named: Iterable[Any]) -> dict[str, Rule]:
    """The rules that the steps among these values declare. Raises `DefinitionError` if two differ under one name, or
    if a step's parameters do not have the key."""
    steps = [value for value in named if is_a(value, (AnyStep,)) and value.limit_use is not None]
    limits = all_limits([(each.limit_use, each.spec.where) for each in steps])
    return {name: limit.rule for name, limit in limits.items()}


async def tend_until_stopped(worker: Seat, rules: dict[str, Rule]) -> None:
    """Looks repeatedly, as long as the worker takes work."""
    hinted, looks, wait = worker.engine.lines_hinted, 0, 0.0
    is_declared, failures = False, Failures()
    while not worker.is_stopping:
        await _hint_or(hinted, wait if rules or looks else None)
        if hinted.is_set():
            hinted.clear()
            looks = 0
        try:
            if not is_declared:
                await declare(worker.store, rules, instance=worker.options.instance)
                is_declared = True
            is_waited_in = await worker.store.tend_limits()
            failures.end()
        except HoldfastError as error:
            told = Trouble("tending limits failed, retrying in a second", error, failures=failures.again(error))
            worker.telemetry.tell(told)
            is_waited_in = True
        except Exception as error:  # noqa: BLE001 the loop must not end
            what, again = "tending limits failed unexpectedly, retrying in a second", failures.again(error)
            worker.telemetry.tell(Trouble(what, error, is_known=False, is_bug=True, failures=again))
            is_waited_in = True
        looks = looks + 1 if is_waited_in else 0
        often = LOOK if looks < MANY else min(LONGEST, LOOK * (looks - MANY + 2))
        wait = often if is_waited_in else worker.options.poll.total_seconds() * POLLS


async def _hint_or(hint: asyncio.Event, seconds: float | None) -> None:
    try:
        async with asyncio.timeout(seconds):
            await hint.wait()
    except TimeoutError:
        return
