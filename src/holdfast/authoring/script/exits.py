"""How a program makes its body leave. Neither is an `Exception`: an author's `except Exception` lets both pass."""

from __future__ import annotations


class Unwinding(BaseException):
    """Private: closes a program. No code of an author can catch it by name, and nothing durable happens after it."""


class ContinueRun(BaseException):
    """Private: `continue_as` leaves the body with it."""
