"""The program protocol: the deciding half of a run.

A program is fed events and answers with commands. It does no I/O, reads no clock, draws no chance and starts no
thread that outlives a call; the same beginning and the same events always give the same commands. The engine cannot
tell a script from a machine or a flow.
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
        """What no error of this run may tell."""
        ...

    @property
    def has_begun(self) -> bool:
        """Whether the body has been entered."""
        ...

    @property
    def is_plain(self) -> bool:
        """Whether it has no timer, and waits for the outcome of no signal. Asked several times a turn, so a plain
        attribute where that can be; a program that cannot tell says no."""
        ...

    def activate(self, at: datetime, inputs: Sequence[Input]) -> list[Command]:
        """Feeds what happened, in order, and returns what to do. `at` is the time of the turn."""
        ...

    def replay(self, turns: Sequence[Turn]) -> None:
        """Goes through recorded turns, comparing what the code asks for with what the journal holds.

        Raises `Diverged` at the first difference; nothing was executed.
        """
        ...

    def next_timer(self) -> datetime | None:
        """When the program next wants to be woken by time alone."""
        ...

    def due_timers(self, now: datetime) -> list[str]:
        """Keys of the timers that have come due, in the order in which they fire."""
        ...

    def awaited_sends(self) -> Mapping[str, str]:
        """The signals sent whose outcome the program waits for (`SendSettled`): key → to which run."""
        ...

    def open_steps(self) -> Mapping[str, RunStep]:
        """The steps asked for whose outcome is still wanted."""
        ...

    def stuck_at(self) -> str | None:
        """Where the author's code stands, if it waits and nothing that the run is ever told can wake it; else None."""
        ...

    def objection(self, event: UpdateReceived) -> str | None:
        """Why a question is refused before the program is fed it; None if it is not. It changes nothing, and is not
        replayed."""
        ...

    def close(self) -> bool:
        """Ends the program without effects: nothing is executed, asked for or journaled any more.

        False if the author's code refused to end: it is left behind, without effects.
        """
        ...
