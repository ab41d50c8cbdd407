"""Errors about runs: finding them, how they and their steps ended, and what authors raise in a step."""

from __future__ import annotations

from holdfast.errors.holdfast_error import HoldfastError


class Conflict(HoldfastError):
    """Another run has the id, key or unique value. `run` is the id of that run, if there is one."""

    def __init__(self, message: str = "", *, run: str = "") -> None:
        super().__init__(message)
        self.run = run


class RunOpen(Conflict):
    """A run, or one in its tree, has not ended, so it was neither deleted nor redacted. `run_id` is the open run."""

    def __init__(self, message: str, *, run_id: str, status: str) -> None:
        super().__init__(message)
        self.run_id = run_id
        self.status = status


class RunRedacted(HoldfastError):
    """A value of the run was redacted: it cannot be read, and the run cannot be retried or replayed."""

    def __init__(self, message: str, *, run_id: str) -> None:
        super().__init__(message)
        self.run_id = run_id


class RunNotFound(HoldfastError):
    """No run of that id in this store."""


class ScheduleNotFound(HoldfastError):
    """No schedule of that name in this store."""


class LimitNotFound(HoldfastError):
    """No limit of that name in this store."""


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


class UpdateRefused(HoldfastError):
    """A run refused an update, with `reason`. Raise it in a handler of `Update.serve` to refuse one."""

    _SAID = "refused"

    def __init__(self, reason: str, *, run_id: str = "", update: str = "", id: str = "") -> None:
        super().__init__(f"run {run_id} {self._SAID} update {update}: {reason}" if run_id else reason)
        self.reason = reason
        self.run_id = run_id
        self.update = update
        self.id = id


class UpdateUnanswered(UpdateRefused):
    """A run will never answer an update: it took it and left it, or it ended before."""

    _SAID = "did not answer"


class UpdateTimeout(HoldfastError, TimeoutError):
    """`update(timeout=…)` ran out. The question stays asked: ask again with the same id, which is `id`."""

    def __init__(self, text: str, *, run_id: str = "", update: str = "", id: str = "") -> None:
        super().__init__(text)
        self.run_id = run_id
        self.update = update
        self.id = id


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
    """A step's final failure, as its workflow sees it, live and on replay."""

    def __init__(self, text: str, *, step: str, attempts: int, type: str, message: str, traceback: str = "") -> None:
        super().__init__(text)
        self.step = step
        self.attempts = attempts
        self.type = type
        self.message = message
        self.traceback = traceback


class OutcomeUnknown(StepFailed):
    """A crash interrupted a `once=True` step: it may or may not have taken effect."""


class LimitReached(StepFailed):
    """A step found no place under its limits within its `limit_wait`. Its body did not run."""


class StreamFull(HoldfastError):
    """Too many parts of a stream wait to be written. `stream` is its name, `parts` how many wait."""

    def __init__(self, text: str, *, stream: str, parts: int) -> None:
        super().__init__(text)
        self.stream = stream
        self.parts = parts


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


class RunPaused(HoldfastError):
    """`app.run` found its run paused, and not by an operator: nothing in this process can resume it. `reason` is that
    of the pause."""

    def __init__(self, text: str, *, run_id: str, reason: str) -> None:
        super().__init__(text)
        self.run_id = run_id
        self.reason = reason


class Stuck(RunPaused):
    """A workflow waits for something that nothing can bring: no step, timer, signal, topic or child is open."""


class Permanent(HoldfastError):
    """Raise it in a step: the attempt failed and another would fail too. The workflow sees `StepFailed`."""


class CircuitOpen(Permanent):
    """A circuit breaker refused the call: no body ran and no attempt was used."""


class RetryAfter(HoldfastError):
    """Raise it in a step: retry, but not before this time has passed. Counts as a failed attempt.

    With `limit`, one of the step's own limits, no step begins under that limit (and key) before then, on any worker,
    and the attempt does not count as failed.
    """

    def __init__(self, after: object, message: str = "", *, limit: object = None) -> None:
        super().__init__(message or f"retry after {after}")
        self.after = after
        self.limit = limit
