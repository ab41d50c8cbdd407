"""Every exception Holdfast raises, and the few that authors raise to steer it.

::

    HoldfastError
    ├── UsageError                    the code is wrong; no data will mend it
    │   ├── NotInRun                  a durable verb, or a workflow awaited, outside a run
    │   ├── NotAllowedHere            a verb in the wrong place: I/O in a workflow, sleep() in a step, …
    │   ├── NotAwaited                a step or child was called and never awaited
    │   └── DefinitionError           a step, workflow, signal or app that cannot be
    ├── InvalidInput (ValueError)     a value was refused before anything was written
    │   ├── InvalidDuration · InvalidId · InvalidRetry · InvalidArguments
    │   ├── InvalidConfig             names the file or variable, and the key
    │   ├── NotEncodable              names the place: order.items[3].price
    │   ├── NotDecodable              stored bytes do not fit the annotation
    │   └── PayloadTooLarge
    ├── Conflict                      the id or key belongs to something else
    ├── RunNotFound · UnknownWorkflow · BlobNotFound
    ├── RunFinished                   a signal, cancel or pause for a run that has ended
    ├── RunFailed · RunCancelled      how a run ended, seen from result() or a parent
    ├── ResultTimeout (TimeoutError)  result(timeout=) ran out; the run goes on
    ├── StepFailed                    a step's last failure, seen by its workflow
    │   └── OutcomeUnknown            a once=True step whose only attempt was cut off
    ├── CompensationFailed            undo steps of a saga that failed, collected
    ├── StepLimitExceeded · DeadlineExceeded · Diverged · NeverWaits
    ├── Permanent · RetryAfter        raised by authors in a step
    └── StoreError
        ├── StoreUnavailable          busy, locked or out of reach for too long
        ├── StoreRefused              read-only folder, network filesystem, not a database, newer schema, …
        ├── DiskFull
        └── CorruptJournal            a checksum or a payload does not hold

A message says what happened, where, and what to do next; the same facts are attributes. Errors that cross a process
boundary cross as data (`core.failure`), never as classes named by data.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = [
    "BlobNotFound",
    "CompensationFailed",
    "Conflict",
    "CorruptJournal",
    "DeadlineExceeded",
    "DefinitionError",
    "DiskFull",
    "Diverged",
    "HoldfastError",
    "InvalidArguments",
    "InvalidConfig",
    "InvalidDuration",
    "InvalidId",
    "InvalidInput",
    "InvalidRetry",
    "NeverWaits",
    "NotAllowedHere",
    "NotAwaited",
    "NotDecodable",
    "NotEncodable",
    "NotInRun",
    "OutcomeUnknown",
    "PayloadTooLarge",
    "Permanent",
    "ResultTimeout",
    "RetryAfter",
    "RunCancelled",
    "RunFailed",
    "RunFinished",
    "RunNotFound",
    "StepFailed",
    "StepLimitExceeded",
    "StoreError",
    "StoreRefused",
    "StoreUnavailable",
    "UnknownWorkflow",
    "UsageError",
]


class HoldfastError(Exception):
    """The root of everything Holdfast raises."""


class UsageError(HoldfastError):
    """The code asks for something that cannot work, whatever the data."""


class NotInRun(UsageError):
    """A durable verb, or a workflow awaited, outside a run."""


class NotAllowedHere(UsageError):
    """A verb or an operation in the wrong place, with what to use there instead."""


class NotAwaited(UsageError):
    """A step or child was called and never awaited; the message names the line."""


class DefinitionError(UsageError):
    """A step, workflow, signal or app that cannot be, with the file and line."""


class InvalidInput(HoldfastError, ValueError):
    """A value was refused at the edge; nothing was written."""


class InvalidDuration(InvalidInput):
    """A duration that does not parse, is negative, or is not finite."""


class InvalidId(InvalidInput):
    """An id that is empty, too long, or holds control characters."""


class InvalidRetry(InvalidInput):
    """A retry policy that cannot be."""


class InvalidArguments(InvalidInput):
    """Arguments that do not fit the signature of a step or workflow."""


class InvalidConfig(InvalidInput):
    """A configuration that cannot be used; the message names the file or variable, and the key."""


class NotEncodable(InvalidInput):
    """A value that cannot be stored, or would not come back equal; `path` names the place."""

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class NotDecodable(InvalidInput):
    """Stored data that does not fit the annotation it is read with; `path` names the place."""

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class PayloadTooLarge(InvalidInput):
    """A payload above `max_payload`; carries its size and the limit."""

    def __init__(self, message: str, *, size: int, limit: int) -> None:
        super().__init__(message)
        self.size = size
        self.limit = limit


class Conflict(HoldfastError):
    """An id in use by another workflow, or a key used before with other input."""


class RunNotFound(HoldfastError):
    """No run of that id in this store."""


class UnknownWorkflow(HoldfastError):
    """No workflow of that name (and version) is known to this app."""


class BlobNotFound(HoldfastError):
    """No blob of that hash in this store."""


class RunFinished(HoldfastError):
    """The run has ended, so the message was refused, not swallowed."""

    def __init__(self, message: str, *, run_id: str, status: str) -> None:
        super().__init__(message)
        self.run_id = run_id
        self.status = status


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
    """`result(timeout=…)` ran out. The run itself goes on."""


class StepFailed(HoldfastError):
    """A step's last failure, as its workflow sees it, live and on replay alike."""

    def __init__(self, text: str, *, step: str, attempts: int, type: str, message: str, traceback: str = "") -> None:
        super().__init__(text)
        self.step = step
        self.attempts = attempts
        self.type = type
        self.message = message
        self.traceback = traceback


class OutcomeUnknown(StepFailed):
    """A `once=True` step was cut off by a crash: it may or may not have taken effect."""


class CompensationFailed(HoldfastError):
    """Some undo steps of a saga failed; the others ran. `failures` holds one line each."""

    def __init__(self, text: str, *, failures: Sequence[str]) -> None:
        super().__init__(text)
        self.failures: tuple[str, ...] = tuple(failures)


class StepLimitExceeded(HoldfastError):
    """The run used up its attempts of all kinds. It fails at once and no policy retries it."""

    def __init__(self, text: str, *, limit: int, count: int) -> None:
        super().__init__(text)
        self.limit = limit
        self.count = count


class DeadlineExceeded(HoldfastError):
    """The run's deadline passed."""


class Diverged(HoldfastError):
    """The code asks for something else than the journal holds. Nothing was executed or written."""


class NeverWaits(HoldfastError):
    """A workflow body kept its loop busy without ever waiting for something durable."""


class Permanent(HoldfastError):
    """Raise it in a step: the attempt failed and another would fail too. The workflow sees `StepFailed`."""


class RetryAfter(HoldfastError):
    """Raise it in a step: try again, but not before this long. Counts as a failed attempt."""

    def __init__(self, after: object, message: str = "") -> None:
        super().__init__(message or f"retry after {after}")
        self.after = after


class StoreError(HoldfastError):
    """The store could not do what was asked."""


class StoreUnavailable(StoreError):
    """The store is busy, locked or out of reach; the same call may succeed later."""


class StoreRefused(StoreError):
    """The store cannot be used as it is: no permission, not a database, newer schema, network filesystem, …"""


class DiskFull(StoreError):
    """No space left for the store; nothing of the refused write was kept."""


class CorruptJournal(StoreError):
    """A checksum or a stored payload does not hold; the run is paused, never repaired in silence."""
