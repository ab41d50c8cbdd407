"""When a run that has nothing to do is released, and until when. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import overload

from holdfast.core import events as e
from holdfast.core.program import Program
from holdfast.core.run import Run
from holdfast.ports.journal import Park
from holdfast.turn.draft import Draft

NEAR = timedelta(seconds=1)
"""A timer this close is awaited in memory."""

SOON = timedelta(seconds=60)
"""A run that parks for longer than this, woken only by time, is the first to leave memory."""


LINGER, LONG_LINGER = timedelta(milliseconds=50), timedelta(seconds=1)
"""How long a parent of running children stays before it parks. A parent of many waits without a slot instead of being
claimed again for every few ends."""

MANY = 16
"""Number of waits from which a run is a parent of many. Others are told of each end at once."""


def linger(run: Run) -> timedelta:
    """How long a run that awaits children stays when it has nothing to do."""
    return LONG_LINGER if len(run.waits) > MANY else LINGER


def park_after(run: Run, program: Program, draft: Draft, *, is_quiet: bool) -> Park | None:
    """The parking of a turn, or None if the run stays. `is_quiet`: no body runs or is about to."""
    last = draft.outputs[-1] if draft.outputs else None
    if isinstance(last, e.Continued):
        return Park(draft.at)
    if isinstance(last, e.RetryPlanned):
        return Park(last.at)
    if not is_quiet or any(isinstance(x, e.StepScheduled) for x in draft.outputs):
        return None
    if program.awaited_sends():  # settled as soon as the turn is durable
        return None
    wake = wake_after(run, program, draft)
    if (wake is not None and wake - draft.at <= NEAR) or awaits_children(run, draft):
        return None
    return Park(wake)


def wake_after(run: Run, program: Program, draft: Draft) -> datetime | None:
    """The earliest time that the run waits for, after the turn."""
    times = [x for x in (next_wake(run, program), *_times_of(draft)) if x is not None]
    return min(times, default=None)


def wakes_soon(run: Run, program: Program, at: datetime) -> bool:
    """Whether a parked run may be back soon: by a message, or at a time that is near."""
    wake = next_wake(run, program)
    if wake is None or wake - at <= SOON:
        return True
    return any(wait.kind != "sleep" and wait.awaited for wait in run.waits.values())


def next_wake(run: Run, program: Program) -> datetime | None:
    """The earliest time that the run waits for: timers, retries, its deadline, the end of its grace."""
    wake = program.next_timer()
    if run.retries:
        wake = earlier(wake, min(run.retries.values()))
    if run.past_deadline is not None or run.cancel is not None:
        return earlier(wake, run.grace_until)
    return wake if run.deadline is None else earlier(wake, run.deadline)


@overload
def earlier(one: datetime, other: datetime | None) -> datetime: ...
@overload
def earlier(one: datetime | None, other: datetime | None) -> datetime | None: ...
def earlier(one: datetime | None, other: datetime | None) -> datetime | None:
    """The earlier of two times, either of which may be None."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def awaits_children(run: Run, draft: Draft) -> bool:
    """Whether the run awaits the end of a child: it stays a little, since children often end soon."""
    started = any(isinstance(x, e.ChildStarted) and x.awaited for x in draft.outputs)
    return started or any(wait.kind == "child" and wait.awaited for wait in run.waits.values())


def _times_of(draft: Draft) -> list[datetime | None]:
    """Wake-up times of a turn that the fold does not know before it is applied."""
    times: list[datetime | None] = []
    for event in draft.inputs:
        if isinstance(event, e.AttemptFailed):
            times.append(event.retry_at)
        elif isinstance(event, e.CancelRequested | e.DeadlineReached):
            times.append(event.grace_until)
    return times
