"""What came of the body of a step."""

from __future__ import annotations

from datetime import timedelta
from typing import TypeAlias

import msgspec

from holdfast.core.durations import parse_duration
from holdfast.core.failure import Failure, from_exception
from holdfast.errors import HoldfastError, InvalidInput, Permanent, RetryAfter, UsageError
from holdfast.ports.transactions import OpenTransaction


class Succeeded(msgspec.Struct, frozen=True):
    """The body returned; the value, encoded. `transaction` holds what it wrote, and waits for the turn."""

    value: bytes
    transaction: OpenTransaction | None = None


class Broke(msgspec.Struct, frozen=True):
    """The body raised. `is_final`: another attempt would not help."""

    failure: Failure
    is_final: bool = False
    not_before: timedelta | None = None


Outcome: TypeAlias = Succeeded | Broke


def classify(error: BaseException, declared: tuple[type[Exception], ...]) -> Broke:
    """What an exception that left a body means."""
    failure = from_exception(error, declared=declared)
    if failure.declared or isinstance(error, Permanent | UsageError | InvalidInput):
        return Broke(failure, is_final=True)
    if isinstance(error, RetryAfter):
        try:
            return Broke(failure, not_before=parse_duration(error.after, what="RetryAfter"))  # type: ignore[arg-type]
        except HoldfastError as refused:
            return Broke(from_exception(refused), is_final=True)
    return Broke(failure)
