"""One entry of a run's timeline, and how it reads. `core.timeline` makes them from a journal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

import msgspec

from holdfast.core.doing import one_line
from holdfast.core.durations import format_duration
from holdfast.core.event import Carrier
from holdfast.core.failure import Failure
from holdfast.core.redacted import Redacted

LENGTH = 500
"""Maximum characters of an error, a reason, a list or a value."""

Kind: TypeAlias = Literal[
    "started", "compacted", "adopted", "claimed", "taken over", "released", "step", "sleep", "signal", "topic",
    "update", "child", "received", "sent", "settled", "exposed", "streamed", "patched", "entered", "kept", "cancel",
    "deadline", "paused", "resumed", "retry", "pass", "continued", "ended", "dropped", "asked", "answered",
    "attributes", "predecessor", "given", "redacted",
]  # fmt: skip
Outcome: TypeAlias = Literal[
    "", "open", "not begun", "completed", "failed", "cancelled", "cut off", "abandoned", "left", "woke", "received",
    "timed out", "over", "answered", "refused",
]  # fmt: skip


class Entry(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """One thing that happened, or is happening.

    `number` counts the entries of a run from 1 and stays while an entry is open. `at` is when it happened or began: for
    an attempt, when its body could begin. `outcome` is empty for momentary events. `worker` and `epoch` are those under
    which it began, `until` is when it ends by itself at the latest, or, after a failure, when the next attempt or pass
    begins. `run` is the other run: a child, a parent, or the receiver of a message.
    """

    number: int
    ordinal: int
    at: datetime
    kind: Kind
    name: str = ""
    key: str = ""
    attempt: int = 0
    of: int | None = None
    outcome: Outcome = ""
    ended_at: datetime | None = None
    until: datetime | None = None
    worker: str = ""
    epoch: int = 0
    run: str = ""
    actor: str = ""
    detail: str = ""
    error: str = ""

    @property
    def goes_on(self) -> bool:
        """Whether it has begun, or may begin, and has not ended."""
        return self.outcome in {"open", "not begun"}

    @property
    def duration(self) -> timedelta | None:
        """How long it took, if that is known."""
        return None if self.ended_at is None else self.ended_at - self.at


def say(entry: Entry) -> str:
    """The entry on one line, without its time: "step charge, attempt 2 of 5: failed after 3 s: CardDeclined: 42"."""
    text = _subject(entry)
    if entry.outcome and (entry.kind, entry.outcome) != ("paused", "open"):
        text += f": {entry.outcome}"
        if entry.duration:
            text += f" after {format_duration(entry.duration)}"
    texts = [text, entry.detail if entry.kind != "sent" else "", entry.error]
    return ": ".join(x for x in texts if x) + (f" (by {entry.actor})" if entry.actor else "")


def _subject(entry: Entry) -> str:
    name = f" {entry.name}" if entry.name else ""
    match entry.kind:
        case "step":
            of = f" of {entry.of}" if entry.of is not None else ""
            return f"step {entry.key}" + (f", attempt {entry.attempt}{of}" if entry.attempt > 1 else "")
        case "signal" | "topic" | "update":
            return f"wait for {entry.kind}{name}"
        case "sleep":
            return entry.name if entry.name.partition(":")[0] == "sleep" else f"sleep{name}"
        case "child":
            return f"child{name} ({entry.run})"
        case "received":
            return f"signal{name} received" + (f" from {entry.run}" if entry.run else "")
        case "asked":
            return f"update{name} received" + (f" from {entry.run}" if entry.run else "")
        case "answered":
            return f"update{name}"
        case "sent":
            return f"{entry.detail}{name} sent to {entry.run}"
        case "settled":
            return f"signal{name} to run {entry.run}: {entry.detail}"
        case "claimed" | "taken over" | "released":
            return f"{entry.kind} by{name}"
        case "cancel":
            return "cancel asked for"
        case "deadline":
            return "deadline passed"
        case "retry":
            return "the body failed and will be retried"
        case "pass":
            return f"pass {entry.attempt} began"
        case "kept":
            return "saga kept"
        case "given":
            return f"one more of {entry.name} given" if entry.name else "new input given"
        case "predecessor":
            return f"run {entry.run} has ended: this one may begin"
        case "dropped":
            return f"message {entry.name} dropped"
        case "paused":
            return f"paused ({entry.name})"
        case _:
            return f"{entry.kind}{name}"


def shortened(text: str) -> str:
    """A text of the journal, on one line."""
    return one_line(text, LENGTH)


def error_text(failure: Failure) -> str:
    """A failure on one line."""
    return shortened(f"{failure.type}: {failure.message}")


def redacted_text(event: Redacted) -> str:
    """What was removed from a run, when and why."""
    why = f" ({event.reason})" if event.reason else ""
    return shortened(f"{', '.join(event.paths)}{why}, at {event.at:%Y-%m-%d %H:%M} UTC")


def payload_text(event: Carrier) -> str:
    """What a fact carries, on one line."""
    return shortened(f"blob {event.blob}" if event.blob else bytes(event.value).decode(errors="replace"))


def list_text(keys: Iterable[str]) -> str:
    """Keys on one line."""
    return shortened(", ".join(keys))


def attributes_text(changed: Mapping[str, str | None]) -> str:
    """Changed attributes on one line."""
    texts = (f"{name} removed" if value is None else f"{name}={value}" for name, value in changed.items())
    return list_text(texts)


def rest_text(left: tuple[str, ...], undone: tuple[str, ...]) -> str:
    """What an end leaves behind. `undone` names what no undo was done for."""
    parts = [f"left running: {list_text(left)}" if left else "", f"not undone: {list_text(undone)}" if undone else ""]
    return "; ".join(part for part in parts if part)
