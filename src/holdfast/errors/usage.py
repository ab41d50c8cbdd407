"""Bugs in the calling code: retrying will not help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.errors.holdfast_error import HoldfastError


class UsageError(HoldfastError):
    """A bug in the calling code; retrying will not help."""


class NotInRun(UsageError):
    """A durable verb, or a workflow awaited, outside a run."""


class NotAllowedHere(UsageError):
    """A verb or an operation in the wrong place; the message says what to use instead."""


class NotAwaited(UsageError):
    """A step or child was called and never awaited; the message names the line."""


class DefinitionError(UsageError):
    """An invalid definition of a step, workflow, signal or app; the message has the file and line."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem in a flow, or a warning about something that is probably a mistake. Lines and columns count from 1;
    they are 0 where there is no file."""

    message: str
    where: str = ""
    line: int = 0
    column: int = 0
    is_warning: bool = False

    def __str__(self) -> str:
        place = f"{self.where}:{self.line}:{self.column}" if self.line else self.where
        text = f"{place}: {self.message}" if place else self.message
        return f"{text} (warning)" if self.is_warning else text


class InvalidFlow(DefinitionError):
    """An invalid flow; `problems` lists everything that is wrong with it, in the order of the file."""

    def __init__(self, text: str, *, problems: Sequence[Problem] = ()) -> None:
        super().__init__(text)
        self.problems: tuple[Problem, ...] = tuple(problems)


class InvalidState(UsageError):
    """A handler returned, or a log names, something that is not a state of its machine."""
