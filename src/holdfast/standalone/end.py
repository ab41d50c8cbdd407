"""How a standalone run ends without reaching a final state: it undoes first, then raises what happened."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NoReturn

from holdfast.authoring.machine.state_failure import state_failed
from holdfast.core.durations import format_duration
from holdfast.core.failure import type_name
from holdfast.errors import CompensationFailed, DeadlineExceeded, RunCancelled, StateFailed
from holdfast.standalone.attempt import Exhausted, to_the_end
from holdfast.standalone.journey import Journey, Stop, TooLate
from holdfast.standalone.rollback import Told, roll_back

if TYPE_CHECKING:
    from holdfast.standalone.rollback import Rollback


async def given_up(one: Journey, error: BaseException) -> NoReturn:
    """Undoes what was completed and raises."""
    raised, cause = _raised(one, error)
    task, _ = await to_the_end(roll_back(one, told(one, raised)))
    conclude(raised, cause, task.result())


def conclude(raised: BaseException, cause: BaseException | None, rollback: Rollback) -> NoReturn:
    """Raises the error itself after a clean rollback, otherwise `CompensationFailed`."""
    if cause is not None:
        raised.__cause__ = cause
    if not rollback.errors:
        raise raised
    lines = "\n".join(rollback.failures)
    raise CompensationFailed(
        f"{len(rollback.failures)} of the undo steps failed after {type(raised).__name__}: {raised}\n{lines}\n"
        "The log is kept: resume() tries them again.",
        failures=rollback.failures,
        errors=(raised, *rollback.errors),
        orphans=rollback.orphans,
    ) from raised


def told(one: Journey, raised: BaseException) -> Told:
    """The failure in the form that the log keeps."""
    if isinstance(raised, StateFailed):
        return Told(raised.state, raised.attempt, raised.type, raised.message, list(raised.path))
    label = one.here.label if one.here is not None else ""
    return Told(label, 0, type_name(type(raised)), str(raised), one.path_shown())


def _raised(one: Journey, error: BaseException) -> tuple[BaseException, BaseException | None]:
    """The error that the caller sees, and its cause."""
    node = one.here
    attempt = 0
    if isinstance(error, asyncio.CancelledError):
        one.tell("cancelled")
        return error, None
    if isinstance(error, Stop):
        one.tell("cancelled")
        label = node.label if node is not None else ""
        return RunCancelled(
            f"machine {one.model.name}: run {one.id} was cancelled in state {label}", run_id=one.id
        ), None
    if isinstance(error, TooLate):
        one.tell("timed_out")
        limit = one.model.options.timeout
        said = format_duration(limit) if limit is not None else ""
        error = DeadlineExceeded(f"the run took longer than its timeout of {said}")
    elif isinstance(error, Exhausted):
        attempt, error = error.attempt, error.error
    if one.model.options.raises and isinstance(error, one.model.options.raises):
        return error, error.__cause__
    failed = state_failed(one.model, node, attempt, type_name(type(error)), str(error), one.path_shown(), run=one.id)
    return failed, error
