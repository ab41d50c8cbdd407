"""For tests of standalone machines: a log in memory, and an observer that records."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.authoring.machine.observers import Observer
from holdfast.core.machine_history import LogRow
from holdfast.errors import Conflict

__all__ = ["MemoryLog", "RecordingObserver"]


class MemoryLog:
    """A three-method store that keeps its rows in a dictionary."""

    def __init__(self) -> None:
        self.runs: dict[str, dict[int, LogRow]] = {}

    async def append(self, run_id: str, row: LogRow) -> None:
        """Keeps the row. Raises `Conflict` for a second one with that sequence."""
        rows = self.runs.setdefault(run_id, {})
        if row.sequence in rows:
            raise Conflict(f"run {run_id} has a row {row.sequence} already")
        rows[row.sequence] = row

    async def load(self, run_id: str) -> Sequence[LogRow]:
        """The rows of a run, in order."""
        return [row for _, row in sorted(self.runs.get(run_id, {}).items())]

    async def clear(self, run_id: str) -> None:
        """Drops the rows of a run."""
        self.runs.pop(run_id, None)


class RecordingObserver(Observer):
    """Records its calls: `events` holds (hook, facts…) in order, without the run's id."""

    def __init__(self) -> None:
        self.events: list[tuple[object, ...]] = []

    @property
    def path(self) -> list[object]:
        """The states entered, in order."""
        return [event[1] for event in self.events if event[0] == "state_entered"]

    def assert_path(self, *states: str) -> None:
        """Fails unless exactly these states were entered, in this order."""
        assert self.path == list(states), f"entered {self.path}, expected {list(states)}"

    def state_entered(self, run_id: str, state: str) -> None:
        self.events.append(("state_entered", state))

    def task_started(self, run_id: str, state: str, task: str, attempt: int) -> None:
        self.events.append(("task_started", state, task, attempt))

    def task_succeeded(self, run_id: str, state: str, task: str, attempt: int) -> None:
        self.events.append(("task_succeeded", state, task, attempt))

    def task_failed(self, run_id: str, state: str, task: str, attempt: int, error: BaseException) -> None:
        self.events.append(("task_failed", state, task, attempt))

    def retry(self, run_id: str, state: str, attempt: int, delay: float, error: BaseException) -> None:
        self.events.append(("retry", state, attempt))

    def circuit_open(self, run_id: str, state: str) -> None:
        self.events.append(("circuit_open", state))

    def checkpoint(self, run_id: str, sequence: int) -> None:
        self.events.append(("checkpoint", sequence))

    def resumed(self, run_id: str, sequence: int) -> None:
        self.events.append(("resumed", sequence))

    def cancelled(self, run_id: str, state: str) -> None:
        self.events.append(("cancelled", state))

    def timed_out(self, run_id: str, state: str) -> None:
        self.events.append(("timed_out", state))

    def clear_failed(self, run_id: str, error: BaseException) -> None:
        self.events.append(("clear_failed",))

    def unknown_state(self, run_id: str, state: str) -> None:
        self.events.append(("unknown_state", state))
