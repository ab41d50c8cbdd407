"""The trace context that a run and a message belong to: the text of a W3C `traceparent`, or nothing.

It is set where something comes in from outside, and passed from a run to its children and messages. Nothing here makes
traces: a client is given the function that returns the current one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

__all__ = ["CurrentTrace", "no_trace", "trace_now"]

CurrentTrace: TypeAlias = Callable[[], str]
"""Returns the `traceparent` of the calling code; empty if there is none."""

_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def no_trace() -> str:
    """The default: nothing is traced."""
    return ""


def trace_now(current: CurrentTrace) -> str:
    """The current context, if there is one and it is well-formed. Errors of tracing are ignored."""
    try:
        found = current()
    except Exception:  # noqa: BLE001 it is the user's code
        return ""
    return found if isinstance(found, str) and _PARENT.fullmatch(found) else ""  # pyright: ignore[reportUnnecessaryIsInstance]
