"""Entries of a timeline in words, for `show` and `follow`."""

from __future__ import annotations

from datetime import datetime

from holdfast.cli.output import STATUS_STYLES, Part
from holdfast.client.inspect.objects import at_text
from holdfast.core.durations import format_duration
from holdfast.core.entry import Entry, say

_STYLES = {"failed": "red", "cut off": "yellow", "timed out": "yellow", "open": "bold", "not begun": "bold"}


def entry_parts(entry: Entry, *, is_news: bool = False) -> Part:
    """An entry of a timeline in its colour. With `is_news`, an open entry has just begun."""
    text = say(entry)
    if is_news and entry.outcome == "open":
        text = text.replace(": open", ": begins", 1)
    return text + _outlook(entry), _style(entry)


def since_text(at: datetime, begin: datetime) -> str:
    """The time since the beginning: "+0.012 s" for small ones, larger units later."""
    seconds = (at - begin).total_seconds()
    return f"+{seconds:.3f} s" if seconds < 60 else f"+{format_duration(at - begin)}"


def _outlook(entry: Entry) -> str:
    """What will happen next."""
    if entry.until is None:
        return ""
    if entry.outcome == "open":
        return (
            f", until {at_text(entry.until)} at the latest"
            if entry.kind != "sleep"
            else f", until {at_text(entry.until)}"
        )
    if entry.outcome == "failed" and entry.ended_at is not None:
        return f"; next attempt {format_duration(entry.until - entry.ended_at)} later"
    return ""


def _style(entry: Entry) -> str:
    if entry.kind == "ended":
        return f"bold {STATUS_STYLES[entry.outcome]}"
    if entry.kind in {"claimed", "released", "kept", "patched"}:
        return "dim"
    return _STYLES.get(entry.outcome, "")
