"""What may happen, as frozen values: the closed union of `ports.telemetry`.

Facts describe what has already happened: nothing may depend on a listener receiving one, and none is repeated after a
crash. Errors are carried as they are; a run's secrets are not in them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from holdfast.ports.removals import RunDeleted as RunDeleted  # noqa: PLC0414 - they belong to the union
from holdfast.ports.removals import RunRedacted as RunRedacted  # noqa: PLC0414


class _Fact(msgspec.Struct, frozen=True):
    """Something that happened."""


class _RunFact(_Fact, frozen=True):
    """Something that happened to a run that a worker holds. `epoch` is that of its lease."""

    run: str
    workflow: str
    worker: str
    epoch: int


# -- runs --------------------------------------------------------------------------------------------------------------


class RunStarted(_Fact, frozen=True):
    """A client of this process started a run, or a worker of it a slot of `schedule`; the run is durable."""

    run: str
    workflow: str
    version: str
    queue: str
    schedule: str = ""


class RunClaimed(_RunFact, frozen=True):
    """A worker holds the run from now on."""


class RunTakenOver(_RunFact, frozen=True):
    """Like `RunClaimed`, and the last worker was cut off in the middle of a step."""


class RunBegan(_RunFact, frozen=True):
    """The body was entered for the first time, and that is durable."""


class RunParked(_RunFact, frozen=True):
    """The run only waits, so the worker released it. `until`: when it wakes by itself."""

    until: datetime | None


class RunReleased(_RunFact, frozen=True):
    """The run was released because its worker stops."""


class RunEnded(_RunFact, frozen=True):
    """The run completed or was cancelled."""

    status: Literal["completed", "cancelled"]


class RunFailed(_RunFact, frozen=True):
    """The run failed with an error that left the workflow; `place`: the file and line where it began, if known."""

    type: str
    message: str
    traceback: str
    place: str


class RunPaused(_RunFact, frozen=True):
    """The run waits for an operator. `was_opened`: its worker could open it, so it was paused later."""

    reason: str
    detail: str
    was_opened: bool


class RunQuarantined(_RunFact, frozen=True):
    """The run is paused because its workers keep dying, or because it was claimed too often without progress."""

    detail: str


class RunFenced(_RunFact, frozen=True):
    """The worker no longer holds the run and drops it. Another worker need not have taken it."""

    why: str


class RunDropped(_RunFact, frozen=True):
    """The worker gives the run up without writing; it is claimed again."""

    why: str


class RunPutOff(_Fact, frozen=True):
    """A run has to wait: another worker holds it, its definition is missing, or `app.run` met an operator's pause."""

    run: str
    kind: Literal["contended", "missing definition", "paused"]
    detail: str


class RunStray(_Fact, frozen=True):
    """The store listed a run as this worker's that the worker does not know: it is released."""

    run: str


class RunFound(_Fact, frozen=True):
    """The start of a run was not answered, but the run was created."""

    run: str


class RunDiverged(_Fact, frozen=True):
    """A shadow replay of a run that has ended asked for something different from what its journal holds."""

    run: str
    error: Exception


class RunCompacted(_Fact, frozen=True):
    """Rows of a journal became one."""

    run: str
    rows: int


class BodyLeftBehind(_Fact, frozen=True):
    """The body of a run that left memory would not end."""

    run: str


class SignalLost(_RunFact, frozen=True):
    """A message that the run sent was not delivered. `why`: "missing", the status in which the receiver had ended, or
    "conflict" if another message has its id."""

    what: str
    why: str


class MessageDamaged(_Fact, frozen=True):
    """A message in the inbox of a run is damaged; the run is paused."""

    run: str
    why: str


# -- steps -------------------------------------------------------------------------------------------------------------


class _StepFact(_RunFact, frozen=True):
    """Something that happened to a step. `key` is that of the call, `step` its name."""

    key: str
    step: str
    attempt: int


class StepStarted(_StepFact, frozen=True):
    """A body is about to begin; this is durable."""


class StepCompleted(_StepFact, frozen=True):
    """A body returned. Its result becomes durable with the next turn."""

    seconds: float | None
    """Seconds since the body was started; None if nothing listened then."""


class AttemptFailed(_StepFact, frozen=True):
    """A body raised; it is retried at `retry_at`. `error`: None from another process, or if the run has secrets."""

    type: str
    message: str
    traceback: str
    place: str
    error: BaseException | None
    retry_at: datetime | None
    seconds: float | None


class StepStopped(_StepFact, frozen=True):
    """A body ended because it was asked to; its outcome is not needed."""

    why: str


# -- the store ---------------------------------------------------------------------------------------------------------


class TurnsCommitted(_Fact, frozen=True):
    """The store answered turns of runs, committed in one transaction. `size` is in bytes."""

    turns: int
    size: int
    seconds: float


class TurnsGivenUp(_Fact, frozen=True):
    """A worker stops, and the store did not answer its turns in time."""

    seconds: float


class StoreUnreachable(_Fact, frozen=True):
    """The store did not answer a worker. Reported once, until it answers again."""

    worker: str
    error: Exception


class StoreReachable(_Fact, frozen=True):
    """The store answers a worker again."""

    worker: str
    seconds: float


class CheckpointFailed(_Fact, frozen=True):
    """SQLite's log could not be emptied. `failures` counts those in a row."""

    error: Exception
    failures: int


class CheckpointWorks(_Fact, frozen=True):
    """SQLite's log can be emptied again."""

    failures: int


class NoticesLost(_Fact, frozen=True):
    """PostgreSQL reports no changes for now: workers find them by polling."""

    error: Exception


class StoreTrouble(_Fact, frozen=True):
    """Like `Trouble`, in the store of this process."""

    what: str
    error: Exception
    run: str = ""
    is_known: bool = True


class StoreLogGrew(_Fact, frozen=True):
    """SQLite's log is long and cannot be emptied, because a process keeps a read transaction open."""

    pages: int


# -- workers -----------------------------------------------------------------------------------------------------------


class WorkerStarted(_Fact, frozen=True):
    """A worker begins to claim. `store` is its address, without a password."""

    worker: str
    workflows: tuple[str, ...]
    queues: tuple[str, ...]
    slots: int
    store: str


class WorkerStopped(_Fact, frozen=True):
    """A worker has released everything it held."""

    worker: str


class WorkerLate(_Fact, frozen=True):
    """Runs did not stop within the grace."""

    worker: str
    runs: int


class WorkerTwin(_Fact, frozen=True):
    """Another live worker has the same id."""

    worker: str
    pid: int
    host: str


class FlowServed(_Fact, frozen=True):
    """A worker serves a flow from the definition stored with its runs."""

    worker: str
    workflow: str


class RunsFreed(_Fact, frozen=True):
    """Runs of workers that disappeared are free. `were_own`: of an earlier instance of this worker."""

    worker: str
    runs: int
    were_own: bool


class Swept(_Fact, frozen=True):
    """A worker removed runs past their retention."""

    worker: str
    runs: int
    rows: int
    blobs: int


class HeartbeatFailed(_Fact, frozen=True):
    """The store did not take a worker's heartbeat. `failures` counts those in a row with the same error."""

    worker: str
    error: Exception
    retry_in: float
    failures: int = 1


class LeaseLost(_Fact, frozen=True):
    """A worker's heartbeat came too late: its lease had expired."""

    worker: str


class LoopBlocked(_Fact, frozen=True):
    """Something blocks the event loop."""

    seconds: float
    place: str


class ProcessStopped(_Fact, frozen=True):
    """The whole process stood still: SIGSTOP, a suspended machine, a debugger."""

    seconds: float


class GrantsLost(_Fact, frozen=True):
    """The lease manager does not answer: the leases of the store apply."""

    worker: str
    error: Exception


class GrantsBack(_Fact, frozen=True):
    """The lease manager answers again."""

    worker: str


# -- the rest ----------------------------------------------------------------------------------------------------------


class Trouble(_Fact, frozen=True):
    """Something went wrong, and the reaction to it. `is_known`: no traceback is needed. `is_bug`: our bug. `failures`
    counts those in a row with the same error."""

    what: str
    error: Exception
    run: str = ""
    worker: str = ""
    is_known: bool = True
    is_bug: bool = False
    failures: int = 1


class HookFailed(_Fact, frozen=True):
    """A hook raised. Reported once for each hook and place; the run is not affected."""

    hook: str
    place: str
    error: BaseException


Fact: TypeAlias = (
    RunStarted | RunClaimed | RunTakenOver | RunBegan | RunParked | RunReleased | RunEnded | RunFailed
    | RunPaused | RunQuarantined | RunFenced | RunDropped | RunPutOff | RunStray | RunFound | RunDiverged
    | RunCompacted | RunDeleted | RunRedacted | BodyLeftBehind | SignalLost | MessageDamaged | StepStarted
    | StepCompleted | AttemptFailed | StepStopped | TurnsCommitted | TurnsGivenUp | StoreUnreachable | StoreReachable
    | CheckpointFailed | CheckpointWorks | NoticesLost | StoreTrouble | StoreLogGrew | WorkerStarted | WorkerStopped
    | WorkerLate | WorkerTwin | FlowServed | RunsFreed | Swept | HeartbeatFailed | LeaseLost | LoopBlocked
    | ProcessStopped | GrantsLost | GrantsBack | Trouble | HookFailed
)  # fmt: skip
"""Something that happened: one of the classes of `holdfast.facts`. Match those you need, and ignore the rest."""
