"""Exceptions by which a program makes its body leave. Neither is an `Exception`, so an author's `except Exception` does
not catch them."""

from __future__ import annotations


class Unwinding(BaseException):
    """Private: closes a program. Authors cannot catch it by name, and nothing durable happens after it."""


class ContinueRun(BaseException):
    """Private: `continue_as` leaves the body with it."""
