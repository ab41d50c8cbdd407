"""Every exception Holdfast raises, and the few that authors raise to steer it.

::

    HoldfastError
    ├── UsageError                    a bug in your code; retrying will not help
    │   ├── NotInRun                  a durable verb, or a workflow awaited, outside a run
    │   ├── NotAllowedHere            a verb in the wrong place: I/O in a workflow, sleep() in a step, …
    │   ├── NotAwaited                a step or child was called and never awaited
    │   ├── InvalidState              a handler returned, or a log names, something that is not a state of its machine
    │   └── DefinitionError           an invalid definition of a step, workflow, signal, machine or app
    │       └── InvalidFlow           everything that is wrong with a flow, each with file, line and column
    ├── InvalidInput (ValueError)     a value was rejected before anything was written
    │   ├── InvalidDuration · InvalidId · InvalidRetry · InvalidArguments
    │   ├── InvalidExpression         an expression of a flow that does not parse; carries its place in the text
    │   ├── InvalidItem               an input of a batch was rejected; carries its index and path
    │   ├── InvalidConfig             names the file or variable, and the key
    │   ├── NotEncodable              names the place: order.items[3].price
    │   ├── NotDecodable              stored bytes do not fit the annotation
    │   └── PayloadTooLarge
    ├── Conflict                      the id or key belongs to something else
    ├── RunNotFound · UnknownWorkflow · BlobNotFound
    ├── RunFinished                   a signal, cancel or pause for a run that has ended
    ├── ItemsFailed                   a batch has ended, and some of its items failed
    ├── RunFailed · RunCancelled      how a run ended, seen from result() or a parent
    ├── ResultTimeout (TimeoutError)  result(timeout=) ran out; the run continues
    ├── StepFailed                    a step's last failure, seen by its workflow
    │   └── OutcomeUnknown            a once=True step whose only attempt was interrupted
    ├── ExpressionFailed              an expression of a flow that has no value: a missing field, text plus number
    ├── StateFailed                   a state's last failure: which state, which attempt, and the path to it
    ├── FlowFailed                    what ended a flow: which step, and its last failure
    ├── SplitFailed                   too few branches of a split succeeded
    ├── VersionMismatch               a machine's log was written by a different version of it
    ├── CompensationFailed            undo steps of a saga that failed, collected
    ├── StepLimitExceeded · DeadlineExceeded · Diverged · NeverWaits
    ├── Permanent · RetryAfter        raised by authors in a step
    │   └── CircuitOpen               a circuit breaker refused the call (a Permanent)
    └── StoreError
        ├── StoreUnavailable          busy, locked or out of reach for too long
        │   └── StoreContended        another transaction holds a lock that this write needs; others may succeed
        ├── StoreRefused              read-only folder, network filesystem, not a database, newer schema, …
        ├── DiskFull
        └── CorruptJournal            a checksum or a payload does not match

A message says what happened, where, and what to do next; the same facts are attributes. Errors that cross a process
boundary cross as data (`core.failure`), never as classes named by data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = [
    "BlobNotFound",
    "CircuitOpen",
    "CompensationFailed",
    "Conflict",
    "CorruptJournal",
    "DeadlineExceeded",
    "DefinitionError",
    "DiskFull",
    "Diverged",
    "ExpressionFailed",
    "FlowFailed",
    "HoldfastError",
    "InvalidArguments",
    "InvalidConfig",
    "InvalidDuration",
    "InvalidExpression",
    "InvalidFlow",
    "InvalidId",
    "InvalidInput",
    "InvalidItem",
    "InvalidRetry",
    "InvalidState",
    "ItemsFailed",
    "NeverWaits",
    "NotAllowedHere",
    "NotAwaited",
    "NotDecodable",
    "NotEncodable",
    "NotInRun",
    "Orphan",
    "OutcomeUnknown",
    "PayloadTooLarge",
    "Permanent",
    "Problem",
    "ResultTimeout",
    "RetryAfter",
    "RunCancelled",
    "RunFailed",
    "RunFinished",
    "RunNotFound",
    "SplitFailed",
    "StateFailed",
    "StepFailed",
    "StepLimitExceeded",
    "StoreContended",
    "StoreError",
    "StoreRefused",
    "StoreUnavailable",
    "UnknownWorkflow",
    "UsageError",
    "VersionMismatch",
]


class HoldfastError(Exception):
    """The root of everything Holdfast raises."""


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


class InvalidInput(HoldfastError, ValueError):
    """A value was rejected; nothing was written."""


class InvalidDuration(InvalidInput):
    """A duration that does not parse, is negative, or is not finite."""


class InvalidId(InvalidInput):
    """An id that is empty, too long, or holds control characters."""


class InvalidRetry(InvalidInput):
    """An invalid retry policy."""


class InvalidArguments(InvalidInput):
    """Arguments that do not fit the signature of a step or workflow."""


class InvalidExpression(InvalidInput):
    """An expression of a flow that does not parse; `offset` is the character, from 0, where it goes wrong."""

    def __init__(self, message: str, *, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


class InvalidItem(InvalidInput):
    """An input of a batch was rejected, and nothing was started. `index` says which, `path` where in it."""

    def __init__(self, text: str, *, index: int, path: str = "") -> None:
        super().__init__(text)
        self.index = index
        self.path = path


class InvalidConfig(InvalidInput):
    """A configuration that cannot be used; the message names the file or variable, and the key."""


class NotEncodable(InvalidInput):
    """A value that cannot be stored, or would not decode to an equal value; `path` names the place."""

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class NotDecodable(InvalidInput):
    """Stored data that does not fit the annotation it is read with; `path` names the place."""

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class PayloadTooLarge(InvalidInput):
    """A payload above `max_payload`; carries the limit and its size, as far as it was measured."""

    def __init__(self, message: str, *, size: int, limit: int) -> None:
        super().__init__(message)
        self.size = size
        self.limit = limit


class Conflict(HoldfastError):
    """An id that another workflow uses, or a key that was used with different input."""


class RunNotFound(HoldfastError):
    """No run of that id in this store."""


class UnknownWorkflow(HoldfastError):
    """No workflow of that name (and version) is known to this app."""


class BlobNotFound(HoldfastError):
    """No blob with that hash in this store: it was never stored, or was removed because nothing referred to it."""


class RunFinished(HoldfastError):
    """The run has ended, so the message was not delivered."""

    def __init__(self, message: str, *, run_id: str, status: str) -> None:
        super().__init__(message)
        self.run_id = run_id
        self.status = status


class ItemsFailed(HoldfastError):
    """A batch has ended, and `failed` of its `total` items failed. The other items are not affected."""

    def __init__(self, text: str, *, failed: int, total: int) -> None:
        super().__init__(text)
        self.failed = failed
        self.total = total


class RunFailed(HoldfastError):
    """The run ended failed. `type` and `message` are those of the error that left the workflow."""

    def __init__(self, text: str, *, run_id: str, type: str, message: str, traceback: str = "") -> None:
        super().__init__(text)
        self.run_id = run_id
        self.type = type
        self.message = message
        self.traceback = traceback


class RunCancelled(HoldfastError):
    """The run ended cancelled (or killed)."""

    def __init__(self, text: str, *, run_id: str, reason: str = "") -> None:
        super().__init__(text)
        self.run_id = run_id
        self.reason = reason


class ResultTimeout(HoldfastError, TimeoutError):
    """`result(timeout=…)` ran out. The run itself continues."""


class StepFailed(HoldfastError):
    """A step's last failure, as its workflow sees it, both live and on replay."""

    def __init__(self, text: str, *, step: str, attempts: int, type: str, message: str, traceback: str = "") -> None:
        super().__init__(text)
        self.step = step
        self.attempts = attempts
        self.type = type
        self.message = message
        self.traceback = traceback


class OutcomeUnknown(StepFailed):
    """A crash interrupted a `once=True` step: it may or may not have taken effect."""


class ExpressionFailed(HoldfastError):
    """An expression of a flow has no value: a field is missing, or the types do not fit."""


class StateFailed(HoldfastError):
    """A state's last failure. `__cause__` is the error itself where it happened in this process. `attempt` is 0 if no
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


class StepLimitExceeded(HoldfastError):
    """The run used up its step attempts. It fails at once and is not retried."""

    def __init__(self, text: str, *, limit: int, count: int) -> None:
        super().__init__(text)
        self.limit = limit
        self.count = count


class DeadlineExceeded(HoldfastError):
    """The run's deadline passed."""


class Diverged(HoldfastError):
    """The code asks for something different from what the journal holds. Nothing was executed or written."""

    def __init__(self, message: str, *, row: int = 0, journal: str = "", code: str = "", where: str = "") -> None:
        super().__init__(message)
        self.row: int = row
        self.journal: str = journal
        self.code: str = code
        self.where: str = where


class NeverWaits(HoldfastError):
    """A workflow body kept its loop busy without waiting for anything durable."""


class Permanent(HoldfastError):
    """Raise it in a step: the attempt failed and another would fail too. The workflow sees `StepFailed`."""


class CircuitOpen(Permanent):
    """A circuit breaker refused the call: no body ran and no attempt was used."""


class RetryAfter(HoldfastError):
    """Raise it in a step: retry, but not before this time has passed. Counts as a failed attempt."""

    def __init__(self, after: object, message: str = "") -> None:
        super().__init__(message or f"retry after {after}")
        self.after = after


class StoreError(HoldfastError):
    """The store could not carry out the request."""


class StoreUnavailable(StoreError):
    """The store is busy, locked or out of reach; the same call may succeed later."""


class StoreContended(StoreUnavailable):
    """Another transaction holds a lock that this write needs. Nothing was written; writes of other runs may succeed."""


class StoreRefused(StoreError):
    """The store cannot be used as it is: no permission, not a database, newer schema, network filesystem, …"""


class DiskFull(StoreError):
    """No space left for the store; nothing of the failed write was kept."""


class CorruptJournal(StoreError):
    """A checksum or a stored payload does not match; the run is paused, never silently repaired."""
