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
    │   ├── InvalidDuration · InvalidId · InvalidRetry · InvalidArguments · InvalidSchedule · InvalidQueue
    │   ├── InvalidExpression         an expression of a flow that does not parse; carries its place in the text
    │   ├── InvalidItem               an input of a batch was rejected; carries its index and path
    │   ├── InvalidConfig             names the file or variable, and the key
    │   ├── NotEncodable              names the place: order.items[3].price
    │   ├── NotDecodable              stored bytes do not fit the annotation
    │   └── PayloadTooLarge
    ├── Conflict                      the id or key belongs to something else
    │   └── RunOpen                   a run that has not ended cannot be deleted or redacted
    ├── RunNotFound · ScheduleNotFound · LimitNotFound · UnknownWorkflow · BlobNotFound
    ├── RunRedacted                   what was asked for was redacted, or needs what was
    ├── RunFinished                   a signal, cancel or pause for a run that has ended
    ├── StreamFull                    more parts of a stream wait to be written than are kept
    ├── UpdateRefused                 a run refused an update; handlers raise it to refuse
    │   └── UpdateUnanswered          a run left an update without an answer, or ended before
    ├── UpdateTimeout (TimeoutError)  update(timeout=) ran out; the question stays asked
    ├── ItemsFailed                   a batch has ended, and some of its items failed
    ├── RunFailed · RunCancelled      how a run ended, seen from result() or a parent
    ├── ResultTimeout (TimeoutError)  result(timeout=) ran out; the run continues
    ├── StepFailed                    a step's last failure, seen by its workflow
    │   ├── OutcomeUnknown            a once=True step whose only attempt was interrupted
    │   └── LimitReached              a step found no place under its limits within its limit_wait
    ├── ExpressionFailed              an expression of a flow that has no value: a missing field, text plus number
    ├── StateFailed                   a state's last failure: which state, which attempt, and the path to it
    ├── FlowFailed                    what ended a flow: which step, and its last failure
    ├── SplitFailed                   too few branches of a split succeeded
    ├── VersionMismatch               a machine's log was written by a different version of it
    ├── CompensationFailed            undo steps of a saga that failed, collected
    ├── RunPaused                     app.run met a pause that no operator asked for
    │   └── Stuck                     nothing can wake the run
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

from holdfast.errors.holdfast_error import (
    HoldfastError,
)
from holdfast.errors.run import (
    BlobNotFound,
    CircuitOpen,
    Conflict,
    DeadlineExceeded,
    Diverged,
    ItemsFailed,
    LimitNotFound,
    LimitReached,
    NeverWaits,
    OutcomeUnknown,
    Permanent,
    ResultTimeout,
    RetryAfter,
    RunCancelled,
    RunFailed,
    RunFinished,
    RunNotFound,
    RunOpen,
    RunPaused,
    RunRedacted,
    ScheduleNotFound,
    StepFailed,
    StepLimitExceeded,
    StreamFull,
    Stuck,
    UnknownWorkflow,
    UpdateRefused,
    UpdateTimeout,
    UpdateUnanswered,
)
from holdfast.errors.store import (
    CorruptJournal,
    DiskFull,
    StoreContended,
    StoreError,
    StoreRefused,
    StoreUnavailable,
)
from holdfast.errors.style import (
    CompensationFailed,
    ExpressionFailed,
    FlowFailed,
    Orphan,
    SplitFailed,
    StateFailed,
    VersionMismatch,
)
from holdfast.errors.usage import (
    DefinitionError,
    InvalidFlow,
    InvalidState,
    NotAllowedHere,
    NotAwaited,
    NotInRun,
    Problem,
    UsageError,
)
from holdfast.errors.value import (
    InvalidArguments,
    InvalidConfig,
    InvalidDuration,
    InvalidExpression,
    InvalidId,
    InvalidInput,
    InvalidItem,
    InvalidQueue,
    InvalidRetry,
    InvalidSchedule,
    NotDecodable,
    NotEncodable,
    PayloadTooLarge,
)

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
    "InvalidQueue",
    "InvalidRetry",
    "InvalidSchedule",
    "InvalidState",
    "ItemsFailed",
    "LimitNotFound",
    "LimitReached",
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
    "RunOpen",
    "RunPaused",
    "RunRedacted",
    "ScheduleNotFound",
    "SplitFailed",
    "StateFailed",
    "StepFailed",
    "StepLimitExceeded",
    "StoreContended",
    "StoreError",
    "StoreRefused",
    "StoreUnavailable",
    "StreamFull",
    "Stuck",
    "UnknownWorkflow",
    "UpdateRefused",
    "UpdateTimeout",
    "UpdateUnanswered",
    "UsageError",
    "VersionMismatch",
]

for _name in __all__:  # readers need not know the module: tracebacks and stored failures name this package
    globals()[_name].__module__ = __name__
