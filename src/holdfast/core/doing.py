"""What a run is doing now, and why, as data and as a sentence. Derived from the fold, shown everywhere.

`Doing` is stored in the run's row so that lists need no fold; `describe` turns it into words at the time of reading.
Its size is bounded, however much a run does at once and however long its errors are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import Literal, TypeAlias, assert_never

import msgspec

from holdfast.core.durations import format_duration
from holdfast.core.opened import OpenStep
from holdfast.core.run import Run
from holdfast.core.status import Status

SHOWN = 4
"""Maximum number of concurrent activities that are kept; the rest are counted."""

SHORT = 200
"""Maximum characters of an error or a reason."""

FAR = timedelta(days=300)
"""A child is awaited for a year unless its author says otherwise: a time so far away is not said."""

LONG = 1000
"""Maximum characters of why a run is paused, which says what to do."""

Kind: TypeAlias = Literal[
    "step",
    "retry",
    "sleep",
    "signal",
    "topic",
    "update",
    "child",
    "start",
    "pass",
    "paused",
    "cancelling",
    "overdue",
    "idle",
]


class Occupation(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One thing that a run does or waits for. `attempt` is the running one or, between two, the one that failed."""

    kind: Kind
    name: str
    until: datetime | None = None
    attempt: int = 0
    of: int | None = None
    detail: str = ""


class Doing(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Everything that a run does: the first few, and how many more."""

    now: tuple[Occupation, ...] = ()
    more: int = 0


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Doing)
_IDLE = Doing()
_RUNNING = Status.RUNNING  # a name alone: asked for by every turn
_SECOND = timedelta(seconds=1)
_MILLISECOND = timedelta(milliseconds=1)


def doing(run: Run) -> Doing:
    """What the run does, from its fold."""
    if run.end is not None:
        return _IDLE
    if run.paused is not None:  # nothing that is open continues
        paused = run.paused
        return Doing((Occupation("paused", paused.reason, detail=one_line(paused.detail, LONG)),))
    if run.status is Status.PENDING:
        return not_begun(run.workflow, run.available_at, run.after)
    if len(run.steps) == 1 and not run.waits and not (run.cancel or run.past_deadline or run.retry):  # most turns
        (step,) = run.steps.values()
        if not step.is_abandoned:
            return Doing((_step(step),))
    found = [*_cleaning_up(run)]
    if run.retry is not None:
        again = run.retry
        why = one_line(again.failure.message, SHORT)
        found.append(Occupation("pass", run.workflow, again.at, run.passes + 1, again.of, why))
    else:
        found += islice(_open_work(run), SHOWN)  # a run may do thousands of things at once
        if len(found) >= SHOWN:
            open_now = sum(1 for _ in _cleaning_up(run)) + _count_open(run)
            return Doing(tuple(found[:SHOWN]), max(0, open_now - SHOWN))
    if not found:
        found.append(Occupation("idle", "", run.deadline) if run.worker else Occupation("start", run.workflow))
    return Doing(tuple(found[:SHOWN]), max(0, len(found) - SHOWN))


def not_begun(workflow: str, available_at: datetime | None, after: Sequence[str] = ()) -> Doing:
    """What a run does that waits for its first worker, or for the end of other runs before."""
    return Doing(
        (Occupation("start", workflow, available_at, detail=one_line(", ".join(after), SHORT) if after else ""),)
    )


def encode_now(run: Run) -> bytes:
    """`doing` in stored form. Most turns ask for one step whose first attempt begins; that form is built once."""
    if run.end is not None:
        return b""
    steps = run.steps
    if len(steps) == 1 and run.status is _RUNNING and not run.waits and run.retry is None:
        (step,) = steps.values()
        is_first = step.attempt == 1 and step.of is None and step.retry_at is None
        is_plain = is_first and not step.is_unstarted and not step.is_abandoned
        if is_plain and run.cancel is None and run.past_deadline is None and run.paused is None:
            return _first_attempt(step.key)
    return encode_doing(doing(run))


@lru_cache(maxsize=1024)
def _first_attempt(key: str) -> bytes:
    return _encoder.encode(Doing((Occupation("step", key, attempt=1),)))


def encode_doing(value: Doing) -> bytes:
    """The stored form for the run's row; empty if there is nothing to say."""
    return _encoder.encode(value) if value.now else b""


def decode_doing(data: bytes) -> Doing:
    """The inverse of `encode_doing`."""
    return _decoder.decode(data) if data else _IDLE


def describe(value: Doing, now: datetime) -> str:
    """The sentence people read: "sleeping until 14:00 UTC, 2 h left", "step charge failed, retrying in 30 s, …"."""
    parts = [_phrase(occupation, now) for occupation in value.now]
    if value.more:
        parts.append(f"and {value.more} more")
    return "; ".join(parts)


def _cleaning_up(run: Run) -> Iterator[Occupation]:
    if run.cancel is not None:
        yield Occupation("cancelling", one_line(run.cancel.reason, SHORT), run.cancel.grace_until)
    if run.past_deadline is not None:
        yield Occupation("overdue", "", run.past_deadline.grace_until)


def _only_started(run: Run) -> bool:
    """A child that was started and is not awaited yet has no event of its own: if nothing else is open, the run waits
    for it."""
    return len(run.steps) == run.abandoned and not any(wait.awaited for wait in run.waits.values())


def _count_open(run: Run) -> int:
    steps = len(run.steps) - run.abandoned
    if not run.waits:
        return steps
    is_any = _only_started(run)
    return steps + sum(1 for wait in run.waits.values() if wait.awaited or is_any)


def _open_work(run: Run) -> Iterator[Occupation]:
    for step in run.steps.values():
        if not step.is_abandoned:
            yield _step(step)
    is_any = _only_started(run)
    for wait in run.waits.values():
        if wait.awaited or is_any:
            yield Occupation(wait.kind, wait.name, wait.until, detail=wait.run)


def _step(step: OpenStep) -> Occupation:
    # Attempts that were cut off cost nothing, so that many more may follow: "attempt 6 of 5" is never said.
    of = step.of + step.restarts if step.of is not None else None
    if step.retry_at is None:
        detail = ""
        if step.is_unstarted:
            detail = f"waiting for limit {step.limits}" if step.limits else "waiting for a worker"
        return Occupation("step", step.key, None, step.attempt, of, detail)
    detail = one_line(step.last.message, SHORT) if step.last is not None else ""
    return Occupation("retry", step.key, step.retry_at, step.attempt, of, detail)


def _phrase(a: Occupation, now: datetime) -> str:
    left = f", {_left(a.until, now)} left" if a.until is not None else ""
    of = f" of {a.of}" if a.of is not None else ""
    why = f": {a.detail}" if a.detail else ""
    match a.kind:
        case "step":
            attempt = f", attempt {a.attempt}{of}" if a.attempt > 1 else ""
            return f"step {a.name}{attempt}{f', {a.detail}' if a.detail else ''}"
        case "retry":
            return f"step {a.name} failed, retrying {_when(a.until, now)}, attempt {a.attempt + 1}{of}{why}"
        case "sleep":
            return f"sleeping until {_clock(a.until, now)}{left}"
        case "signal" | "topic" | "update":
            return f"waiting for {a.kind} {a.name}{left}"
        case "child":
            is_far = a.until is not None and a.until - now > FAR
            return f"waiting for child {a.name} ({a.detail}){'' if is_far else left}"
        case "start":
            if a.detail:
                return f"begins after the end of run {a.detail}"
            is_later = a.until is not None and a.until > now
            return f"starts {_when(a.until, now)}" if is_later else "waiting for a worker"
        case "pass":
            return f"failed, pass {a.attempt}{of} begins {_when(a.until, now)}{why}"
        case "paused":
            return f"paused ({a.name}){why}"
        case "cancelling":
            return f"cleaning up after a cancel{f' ({a.name})' if a.name else ''}{left}"
        case "idle":
            deadline = f", or for its deadline{left}; nothing else can wake it" if a.until is not None else ""
            return f"waiting for a timeout of its own{deadline}"
        case "overdue":
            return f"cleaning up after its deadline{left}"
        case _:
            assert_never(a.kind)


def _left(until: datetime, now: datetime) -> str:
    """The remaining time; zero if it is past. From one second on it is rounded up to whole seconds: 2 d stay 2 d."""
    left = until - now
    if left <= timedelta(0):
        return "0 s"
    unit = _MILLISECOND if left < _SECOND else _SECOND
    return format_duration(-(-left // unit) * unit)


def _when(until: datetime | None, now: datetime) -> str:
    return "now" if until is None or until <= now else f"in {_left(until, now)}"


def _clock(until: datetime | None, now: datetime) -> str:
    """The time of day in UTC, with the date if it is not today's."""
    if until is None:
        return "woken"
    at = until.astimezone(UTC)
    day = "" if at.date() == now.astimezone(UTC).date() else f"{at:%Y-%m-%d} "
    return f"{day}{at:%H:%M:%S}".removesuffix(":00") + " UTC"


def one_line(text: str, limit: int) -> str:
    """The text on one line, with at most that many characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
