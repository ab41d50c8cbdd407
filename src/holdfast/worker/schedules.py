"""The schedule loop: decides the slots that are due. One worker at a time does it.

A duty in the store, which expires, names that worker; the schedule's revision ensures that two workers never decide the
same slot. The loop sleeps until the next slot of any schedule. It wakes early when a schedule is changed by hand, or
when a run ends that a buffered slot waits for. With nothing due, a pass is one read.
"""

from __future__ import annotations

import asyncio
import random

from holdfast.errors import HoldfastError
from holdfast.ports.facts import Trouble
from holdfast.ports.schedules import SCHEDULES
from holdfast.schedules.due import DUTY, declare, fire_buffered, fire_due
from holdfast.worker.failures import Failures
from holdfast.worker.seat import Seat

LOOK = 5
"""Polls between two looks, in case another process created a schedule."""

SPREAD = 0.2
"""Maximum seconds of random delay for a worker without the duty, so that not all ask at once."""

SOME = 20
"""Schedules with a buffered slot that one pass checks without a hint that a run has ended."""

PAUSE = 2.0
"""Seconds to wait after a failure."""


class Awaited:
    """Runs whose end a buffered slot waits for, and hints of them. Heard from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._runs: dict[str, frozenset[str]] = {}
        self._all: frozenset[str] = frozenset({SCHEDULES})
        self._heard: set[str] = set()
        self.hinted: asyncio.Event = asyncio.Event()

    def hear(self, run: str) -> None:
        """A write concerns that run."""
        if run in self._all and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._note, run)

    def _note(self, run: str) -> None:
        self._heard.add(run)
        self.hinted.set()

    def __bool__(self) -> bool:
        return bool(self._runs)

    def learn(self, schedule: str, runs: frozenset[str]) -> None:
        """Records what the schedule waits for now. It is checked last from here on."""
        if not runs and schedule not in self._runs:
            return
        self._runs.pop(schedule, None)
        if runs:
            self._runs[schedule] = runs
        self._all = frozenset({SCHEDULES}).union(*self._runs.values())

    def take(self) -> list[str]:
        """The schedules to check: those with a hint, and some more, in case a hint was lost."""
        self.hinted.clear()
        heard, self._heard = self._heard, set()
        hinted = [schedule for schedule, runs in self._runs.items() if runs & heard]
        return list(dict.fromkeys((*hinted, *list(self._runs)[:SOME])))


async def fire_until_stopped(worker: Seat) -> None:
    """Runs passes as long as the worker takes work."""
    awaited = Awaited(asyncio.get_running_loop())
    unsubscribe, failures = worker.store.subscribe(awaited.hear), Failures()
    try:
        while not worker.is_stopping:
            try:
                wait = await _pass(worker, awaited)
                failures.end()
            except HoldfastError as error:
                what = f"firing schedules failed, retrying in {PAUSE:.0f} s"
                worker.telemetry.tell(Trouble(what, error, failures=failures.again(error)))
                wait = PAUSE
            except Exception as error:  # noqa: BLE001 the loop must not end
                what = f"firing schedules failed unexpectedly, retrying in {PAUSE:.0f} s"
                told = Trouble(what, error, is_known=False, is_bug=True, failures=failures.again(error))
                worker.telemetry.tell(told)
                wait = PAUSE
            await _hint_or(awaited.hinted, wait)
    finally:
        unsubscribe()
        if not worker.is_stopped:
            await worker.store.drop_duty(DUTY, holder=worker.options.instance)


async def _pass(worker: Seat, awaited: Awaited) -> float:
    """Decides what is due; returns the seconds until there may be more."""
    instance = worker.options.instance
    if not worker.has_declared:
        await declare(worker.store, worker.schedules, instance=instance, by=worker.options.id)
        worker.has_declared = True
    for schedule in awaited.take():
        awaited.learn(schedule, await fire_buffered(worker.store, schedule, tell=worker.telemetry.tell))
    poll = worker.options.poll.total_seconds()
    fired = await fire_due(worker.store, holder=instance, tell=worker.telemetry.tell)
    if fired is None:
        return poll + random.uniform(0, SPREAD)
    for schedule, runs in fired.awaited.items():
        awaited.learn(schedule, runs)
    look = poll if awaited else poll * LOOK
    return look if fired.wait is None else min(look, fired.wait.total_seconds())


async def _hint_or(hint: asyncio.Event, seconds: float) -> None:
    if hint.is_set() or seconds <= 0:
        await asyncio.sleep(0)
        return
    try:
        async with asyncio.timeout(seconds):
            await hint.wait()
    except TimeoutError:
        return
