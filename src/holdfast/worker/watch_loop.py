"""The watch loop: notices what other processes wrote, and compares what we hold with what the store says.

Checking for changes is cheap and frequent; the comparison runs after a change and once per poll, which finds
everything.
"""

from __future__ import annotations

import asyncio

from holdfast.errors import StoreError
from holdfast.ports.facts import Trouble
from holdfast.worker.failures import Failures
from holdfast.worker.seat import Seat

FIRST_LOOK = 0.002
"""Seconds to the next check for changes right after one; `options.look` when nothing happens."""

SOON = 0.01
"""Pauses up to this one grow slowly, since an answer to what was just written may come. Longer ones double, since
mostly the change was a heartbeat."""


class Looks:
    """Checks for changes with a timer instead of a task: an idle worker does little else. A store that reports changes
    calls it directly."""

    def __init__(self, worker: Seat) -> None:
        self._worker = worker
        self._loop = asyncio.get_running_loop()
        self._poll = worker.options.poll.total_seconds()
        self._longest = self._pause = worker.options.look.total_seconds()
        self._compared_at = self._loop.time()
        self._changed_at = -FIRST_LOOK
        self._seen: int = worker.store.changes()
        self._has_news = False
        self._is_due: asyncio.Future[None] | None = None

    async def comparison(self) -> None:
        """Returns when the next comparison is due."""
        is_due = self._is_due = self._loop.create_future()
        self._timer = self._loop.call_later(self._pause, self._look, is_due)
        try:
            await is_due
        finally:
            self._timer.cancel()
            self._is_due = None
        self._compared_at, self._has_news = self._loop.time(), False

    def at_once(self) -> None:
        """Another process wrote. Repeated calls do not cause more comparisons."""
        is_due = self._is_due
        soon = self._changed_at + FIRST_LOOK
        if is_due is not None and not is_due.done() and soon < self._timer.when():
            self._timer.cancel()
            self._timer = self._loop.call_at(soon, self._look, is_due)

    def _look(self, is_due: asyncio.Future[None]) -> None:
        if is_due.done():  # cancelled in this very pass of the loop
            return
        now = self._loop.time()
        self._pause = min(self._pause * (1.25 if self._pause < SOON else 2), self._longest)
        try:
            changes = self._worker.store.changes()
        except Exception as error:  # noqa: BLE001 the task that waits raises it
            is_due.set_exception(error)
            return
        if changes != self._seen:
            self._seen, self._pause, self._has_news, self._changed_at = changes, FIRST_LOOK, True, now
            self._worker.work_hinted.set()
        since = now - self._compared_at
        if since >= self._poll or (self._has_news and since >= self._longest):
            is_due.set_result(None)
        else:
            self._timer = self._loop.call_later(self._pause, self._look, is_due)


async def watch_until_stopped(worker: Seat) -> None:
    """Passes hints to the claim loop and news to the sessions."""
    looks, failures = Looks(worker), Failures()
    worker.others_wrote = looks.at_once
    while not worker.is_stopped:
        try:
            await looks.comparison()
            worker.telemetry.refresh()
            await worker.engine.check_held(worker.options.instance)
            failures.end()
        except StoreError as error:
            told = Trouble("comparing held runs failed, retrying", error, failures=failures.again(error))
            worker.telemetry.tell(told)
        except Exception as error:  # noqa: BLE001 the loop must not end
            what, again = "watching failed unexpectedly, retrying", failures.again(error)
            worker.telemetry.tell(Trouble(what, error, is_known=False, is_bug=True, failures=again))
