"""A program whose code is watched for what differs between two executions, and for how it ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.program import Program
from holdfast.core.redaction import Redaction
from holdfast.core.turn import Turn
from holdfast.testing.sweep.determinism import Watch
from holdfast.testing.sweep.stage import Stage


class WatchedProgram:
    """A program whose code is watched while it runs, whatever its style."""

    def __init__(self, inner: Program, stage: Stage, watch: Watch) -> None:
        self._inner = inner
        self._stage = stage
        self._watch = watch
        self._is_closed = False

    @property
    def redaction(self) -> Redaction:
        return self._inner.redaction

    @property
    def has_begun(self) -> bool:
        return self._inner.has_begun

    def objection(self, event: e.UpdateReceived) -> str | None:
        return self._inner.objection(event)

    def activate(self, at: datetime, inputs: Sequence[e.Input]) -> list[c.Command]:
        with self._watch:
            commands = self._inner.activate(at, inputs)
        self._look(commands)
        return commands

    def replay(self, turns: Sequence[Turn]) -> None:
        with self._watch:
            self._inner.replay(turns)

    def next_timer(self) -> datetime | None:
        return self._inner.next_timer()

    @property
    def is_plain(self) -> bool:
        return self._inner.is_plain

    def due_timers(self, now: datetime) -> list[str]:
        return self._inner.due_timers(now)

    def awaited_sends(self) -> Mapping[str, str]:
        return self._inner.awaited_sends()

    def open_steps(self) -> Mapping[str, c.RunStep]:
        return self._inner.open_steps()

    def stuck_at(self) -> str | None:
        return self._inner.stuck_at()

    def close(self) -> bool:
        if self._is_closed:
            return True
        self._is_closed = True
        return self._inner.close()

    def _look(self, commands: Sequence[c.Command]) -> None:
        """Checks what only the program knows about its end."""
        if not commands or not isinstance(commands[-1], c.Complete | c.Stop):
            return
        if getattr(self._inner, "has_swallowed_cancel", False):
            self._stage.note(
                "the workflow was cancelled, caught the CancelledError and returned",
                "Clean up in `finally`, or raise it again: `except asyncio.CancelledError: …; raise`. "
                "`except Exception` does not catch it, a bare `except` does.",
            )
        left: list[str] = getattr(self._inner, "left_tasks", [])
        for name in left if isinstance(commands[-1], c.Complete) else ():
            self._stage.note(
                f"the workflow returned while its task {name} was not done",
                "The rest of that task never runs. Await it, or use `async with asyncio.TaskGroup()`.",
            )
