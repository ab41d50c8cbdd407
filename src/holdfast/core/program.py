"""The program protocol: the deciding half of a run.

A program takes events and returns commands. It does no I/O, reads no clock and no randomness, and starts no thread that
outlives a call. The same beginning and the same events always give the same commands. To the engine, scripts, machines
and flows are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from holdfast.core.commands import Command, RunStep
from holdfast.core.events import Input, UpdateReceived
from holdfast.core.redaction import Redaction
from holdfast.core.turn import Turn


class Program(Protocol):
    """One pass of a run, in memory."""

    @property
    def redaction(self) -> Redaction:
        """Values that no error of this run may contain."""
        ...

    @property
    def has_begun(self) -> bool:
        """Whether the body has been entered."""
        ...

    @property
    def is_plain(self) -> bool:
        """Whether it has no timer and waits for the outcome of no signal. Read several times per turn, so it is a plain
        attribute where possible; a program that does not know says False."""
        ...

    def activate(self, at: datetime, inputs: Sequence[Input]) -> list[Command]:
        """Takes what happened, in order, and returns what to do. `at` is the time of the turn."""
        ...

    def replay(self, turns: Sequence[Turn]) -> None:
        """Replays recorded turns, comparing what the code asks for with what the journal holds.

        Raises `Diverged` at the first difference; nothing was executed.
        """
        ...

    def next_timer(self) -> datetime | None:
        """The next time at which the program must be woken."""
        ...

    def due_timers(self, now: datetime) -> list[str]:
        """Keys of the due timers, in the order in which they fire."""
        ...

    def awaited_sends(self) -> Mapping[str, str]:
        """Sent signals whose outcome the program waits for (`SendSettled`): key → receiving run."""
        ...

    def open_steps(self) -> Mapping[str, RunStep]:
        """The steps asked for whose outcome is still wanted."""
        ...

    def stuck_at(self) -> str | None:
        """Where the author's code waits, if nothing that the run is ever told can wake it; else None."""
        ...

    def objection(self, event: UpdateReceived) -> str | None:
        """Why a question is refused before the program gets it, or None. It changes nothing, and is not replayed."""
        ...

    def close(self) -> bool:
        """Ends the program without effects: nothing more is executed, asked for or journaled. Returns False if the
        author's code refused to end: it is left behind, without effects."""
        ...
