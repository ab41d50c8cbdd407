"""Observers of a machine: hooks that see everything and change nothing.

Every hook is optional, sync, and called in the order of registration. Errors of a hook are logged and the run
continues.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

LOG = logging.getLogger("holdfast.machine")


class Observer:
    """Override what you want to see. For one state: entered, checkpoint, started, retry…, succeeded or failed."""

    def state_entered(self, run_id: str, state: str) -> None:
        """A state was entered, routers included."""

    def task_started(self, run_id: str, state: str, task: str, attempt: int) -> None:
        """A body is about to run. The branches of a split are `name[0]`, `name[1]`, …"""

    def task_succeeded(self, run_id: str, state: str, task: str, attempt: int) -> None:
        """A body returned."""

    def task_failed(self, run_id: str, state: str, task: str, attempt: int, error: BaseException) -> None:
        """A body failed for good, or was stopped."""

    def retry(self, run_id: str, state: str, attempt: int, delay: float, error: BaseException) -> None:
        """Attempt `attempt` failed; the next begins after `delay` seconds."""

    def circuit_open(self, run_id: str, state: str) -> None:
        """The circuit breaker of a state refused a call."""

    def checkpoint(self, run_id: str, sequence: int) -> None:
        """A row is durable."""

    def resumed(self, run_id: str, sequence: int) -> None:
        """A run resumes from its log, whose last row has that sequence."""

    def cancelled(self, run_id: str, state: str) -> None:
        """The run was cancelled."""

    def timed_out(self, run_id: str, state: str) -> None:
        """The run's total time is over."""

    def clear_failed(self, run_id: str, error: BaseException) -> None:
        """The log of an ended run could not be cleared."""

    def unknown_state(self, run_id: str, state: str) -> None:
        """An old row names a state that this machine does not have."""


class LoggingObserver(Observer):
    """Logs with `logging`: checkpoints at DEBUG, resumes at INFO, failures at WARNING."""

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._log = logger or logging.getLogger("holdfast.machine.observer")

    def state_entered(self, run_id: str, state: str) -> None:
        self._log.debug("run %s: entered %s", run_id, state)

    def task_started(self, run_id: str, state: str, task: str, attempt: int) -> None:
        self._log.debug("run %s: %s of %s began, attempt %d", run_id, task, state, attempt)

    def task_succeeded(self, run_id: str, state: str, task: str, attempt: int) -> None:
        self._log.debug("run %s: %s of %s succeeded", run_id, task, state)

    def task_failed(self, run_id: str, state: str, task: str, attempt: int, error: BaseException) -> None:
        self._log.warning("run %s: %s of %s failed, attempt %d: %r", run_id, task, state, attempt, error)

    def retry(self, run_id: str, state: str, attempt: int, delay: float, error: BaseException) -> None:
        self._log.info("run %s: attempt %d of %s failed, next in %.3f s: %r", run_id, attempt, state, delay, error)

    def circuit_open(self, run_id: str, state: str) -> None:
        self._log.warning("run %s: the circuit breaker of %s is open", run_id, state)

    def checkpoint(self, run_id: str, sequence: int) -> None:
        self._log.debug("run %s: row %d is durable", run_id, sequence)

    def resumed(self, run_id: str, sequence: int) -> None:
        self._log.info("run %s: resumed after row %d", run_id, sequence)

    def cancelled(self, run_id: str, state: str) -> None:
        self._log.info("run %s: cancelled in %s", run_id, state)

    def timed_out(self, run_id: str, state: str) -> None:
        self._log.warning("run %s: timed out in %s", run_id, state)

    def clear_failed(self, run_id: str, error: BaseException) -> None:
        self._log.warning("run %s: its log could not be cleared: %r", run_id, error)

    def unknown_state(self, run_id: str, state: str) -> None:
        self._log.warning("run %s: its log names %s, which this machine does not have", run_id, state)


class Audience:
    """All observers of one machine, called safely."""

    def __init__(self, observers: Sequence[Observer] = ()) -> None:
        self._observers = tuple(observers)

    def __bool__(self) -> bool:
        return bool(self._observers)

    def tell(self, hook: str, run_id: str, *facts: object) -> None:
        """Calls one hook of every observer; errors are logged."""
        for observer in self._observers:
            try:
                getattr(observer, hook)(run_id, *facts)
            except Exception:
                LOG.warning("observer %r: %s raised; the run continues", observer, hook, exc_info=True)
