"""Errors that end a machine or a flow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.errors.holdfast_error import HoldfastError


class ExpressionFailed(HoldfastError):
    """An expression of a flow has no value: a field is missing, or the types do not match."""


class StateFailed(HoldfastError):
    """A state's final failure. `__cause__` is the error itself if it happened in this process. `attempt` is 0 if no
    body was called: the circuit was open, the time was over, the run was cancelled."""

    def __init__(
        self,
        text: str,
        *,
        machine: str,
        state: str,
        attempt: int,
        path: Sequence[str],
        type: str = "",
        message: str = "",
    ) -> None:
        super().__init__(text)
        self.machine = machine
        self.state = state
        self.attempt = attempt
        self.path: tuple[str, ...] = tuple(path)
        self.type = type
        self.message = message


class FlowFailed(HoldfastError):
    """What ended a run of a flow: the step that failed, and its last failure. `step` is empty if it was the output."""

    def __init__(
        self, text: str, *, flow: str = "", step: str = "", type: str = "", message: str = "", attempts: int = 1
    ) -> None:
        super().__init__(text)
        self.flow = flow
        self.step = step
        self.type = type
        self.message = message
        self.attempts = attempts


class SplitFailed(HoldfastError):
    """A split did not get the results that its join needs; the message has the first errors of its branches."""


class VersionMismatch(HoldfastError):
    """A machine's log was written by a different version of it."""

    def __init__(self, text: str, *, stored: str, expected: str) -> None:
        super().__init__(text)
        self.stored = stored
        self.expected = expected


@dataclass(frozen=True, slots=True)
class Orphan:
    """Completed work that could not be undone: its state, and its stored result."""

    state: str
    output: bytes


class CompensationFailed(HoldfastError):
    """Some undo steps of a saga failed; the others ran. `failures` has one line for each; `__cause__` is the error
    that started the undo. For a standalone machine, `errors` has that error first and then those of the undos, in the
    order they were tried, and `orphans` lists what was not undone."""

    def __init__(
        self,
        text: str,
        *,
        failures: Sequence[str],
        errors: Sequence[BaseException] = (),
        orphans: Sequence[Orphan] = (),
    ) -> None:
        super().__init__(text)
        self.failures: tuple[str, ...] = tuple(failures)
        self.errors: tuple[BaseException, ...] = tuple(errors)
        self.orphans: tuple[Orphan, ...] = tuple(orphans)
