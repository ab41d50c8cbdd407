"""What a run is doing now, and why, as data and as a sentence. Derived from the fold, shown everywhere.

`Doing` is stored in the run's row so that lists need no fold; `describe` turns it into words at the time of reading.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from holdfast.core.durations import format_duration
from holdfast.core.run import Run
from holdfast.core.status import Status

SHOWN = 4
"""How many of the things a run does at once are kept; the rest are counted."""


class Occupation(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One thing a run does or waits for."""

    kind: Literal["step", "retry", "sleep", "signal", "topic", "child", "start", "pass", "paused", "cancelling"]
    name: str
    until: datetime | None = None
    attempt: int = 0
    of: int | None = None
    detail: str = ""


class Doing(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """All of it: the first few, and how many more."""

    now: tuple[Occupation, ...] = ()
    more: int = 0


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Doing)
_IDLE = Doing()


def doing(run: Run) -> Doing:
    """What the run does, from its fold."""
    if run.end is not None:
        return _IDLE
    found: list[Occupation] = []
    if run.paused is not None:
        found.append(Occupation("paused", run.paused.reason, detail=run.paused.detail))
    if run.status is Status.PENDING:
        found.append(Occupation("start", run.workflow, run.available_at))
    if run.cancel is not None:
        found.append(Occupation("cancelling", run.cancel.reason, run.cancel.grace_until))
    if run.retry is not None:
        found.append(
            Occupation("pass", run.workflow, run.retry.at, run.passes + 1, run.retry.of, run.retry.failure.message[:200])
        )
    for step in run.steps.values():
        if step.is_abandoned:
            continue
        if step.retry_at is None:
            found.append(Occupation("step", step.key, None, step.attempt, step.of))
        else:
            detail = step.last.message[:200] if step.last else ""
            found.append(Occupation("retry", step.key, step.retry_at, step.attempt, step.of, detail))
    for wait in run.waits.values():
        if wait.awaited:
            found.append(Occupation(wait.kind, wait.name, wait.until, detail=wait.run))  # type: ignore[arg-type]
    return Doing(tuple(found[:SHOWN]), max(0, len(found) - SHOWN)) if found else _IDLE


def encode_doing(value: Doing) -> bytes:
    """As stored in the run's row; nothing to say is stored as nothing."""
    return _encoder.encode(value) if value.now else b""


def decode_doing(data: bytes) -> Doing:
    """The inverse of `encode_doing`."""
    return _decoder.decode(data) if data else _IDLE


def describe(value: Doing, now: datetime) -> str:
    """The sentence people read: "sleeping until 14:00:00 (2 h left)", "step charge failed, retrying in 30 s, …"."""
    parts = [_phrase(occupation, now) for occupation in value.now]
    if value.more:
        parts.append(f"and {value.more} more")
    return "; ".join(parts)


def _phrase(a: Occupation, now: datetime) -> str:
    left = f"{format_duration(max(a.until - now, a.until - a.until))} left" if a.until else ""
    of = f" of {a.of}" if a.of else ""
    match a.kind:
        case "step":
            return f"step {a.name}" + (f", attempt {a.attempt}{of}" if a.attempt > 1 else "")
        case "retry":
            again = f"retrying in {left.removesuffix(' left')}" if a.until and a.until > now else "retrying now"
            why = f": {a.detail}" if a.detail else ""
            return f"step {a.name} failed, {again}, attempt {a.attempt + 1}{of}{why}"
        case "sleep":
            return f"sleeping until {a.until:%Y-%m-%d %H:%M:%S} UTC ({left})"
        case "signal" | "topic":
            return f"waiting for {a.kind} {a.name}" + (f", {left}" if left else "")
        case "child":
            return f"waiting for child {a.name} ({a.detail})" + (f", {left}" if left else "")
        case "start":
            return f"starts in {left.removesuffix(' left')}" if a.until and a.until > now else "waiting for a worker"
        case "pass":
            return f"failed, pass {a.attempt}{of} begins in {left.removesuffix(' left')}: {a.detail}"
        case "paused":
            return f"paused ({a.name})" + (f": {a.detail}" if a.detail else "")
        case "cancelling":
            return "cleaning up after a cancel" + (f" ({a.name})" if a.name else "") + (f", {left}" if left else "")
