"""The outcome of the body of a step."""

from __future__ import annotations

from datetime import timedelta
from inspect import unwrap
from traceback import walk_tb
from typing import TypeAlias

import msgspec

from holdfast.core.durations import parse_duration
from holdfast.core.failure import Failure, from_exception
from holdfast.core.retry import Retry
from holdfast.core.specs import StepSpec
from holdfast.errors import HoldfastError, InvalidInput, Permanent, RetryAfter, UsageError
from holdfast.ports.transactions import OpenTransaction


class Succeeded(msgspec.Struct, frozen=True):
    """The body returned; the encoded value. `transaction` holds what it wrote, and waits for the turn."""

    value: bytes
    transaction: OpenTransaction | None = None


class Broke(msgspec.Struct, frozen=True):
    """The body raised. `is_final`: another attempt would not help."""

    failure: Failure
    is_final: bool = False
    not_before: timedelta | None = None
    limit: str = ""  # is to be quiet for `not_before`: the attempt did not fail
    error: BaseException | None = None  # as it was raised, for listeners; None from another process


Outcome: TypeAlias = Succeeded | Broke

MISTAKES = frozenset(
    {NameError, UnboundLocalError, ImportError, ModuleNotFoundError, SyntaxError, IndentationError, TabError}
)
"""Errors of code that is wrong as written."""


def classify(error: BaseException, spec: StepSpec, retry: Retry | None = None) -> Broke:
    """Classifies an exception from the body of a step. `retry` decides whether it is retried, also for a declared one;
    an error of its predicate is the outcome."""
    failure = from_exception(error, declared=spec.raises)
    if isinstance(error, Permanent | UsageError | InvalidInput) and not failure.declared:
        return Broke(failure, is_final=True, error=error)
    try:
        is_wanted = None if retry is None or isinstance(error, RetryAfter) else retry.wants(error)
    except Exception as raised:  # noqa: BLE001 the author's predicate
        return Broke(from_exception(raised), is_final=True, error=raised)
    if is_wanted is False or (is_wanted is None and (failure.declared or is_mistake(error, spec))):
        return Broke(failure, is_final=True, error=error)
    if isinstance(error, RetryAfter):
        try:
            limit = _limit_of(error, spec)
            after = parse_duration(error.after, what="RetryAfter")  # type: ignore[arg-type]
            return Broke(failure, not_before=after, limit=limit, error=error)
        except HoldfastError as refused:
            return Broke(from_exception(refused), is_final=True, error=refused)
    return Broke(failure, error=error)


def _limit_of(error: RetryAfter, spec: StepSpec) -> str:
    """The name of the limit to pause. Raises `InvalidInput` if the step does not have that limit."""
    if error.limit is None:
        return ""
    name = getattr(error.limit, "name", error.limit)
    if not isinstance(name, str) or name not in spec.limits:
        raise InvalidInput(
            f"RetryAfter(limit={name!r}): step {spec.name} does not use that limit ({spec.where}). "
            f"Its limits: {', '.join(spec.limits) or 'none'}."
        )
    return name


def is_mistake(error: BaseException, spec: StepSpec) -> bool:
    """Whether the code is wrong, so that a retry cannot help: a missing name or module, or a call that does not match
    the function. An `AttributeError` is not: it also comes from data."""
    if type(error) in MISTAKES:  # not a subclass: that of a parser is about its input
        return True
    if type(error) is not TypeError:
        return False
    body: object = getattr(unwrap(spec.function), "__code__", None)
    return body is not None and all(frame.f_code is not body for frame, _ in walk_tb(error.__traceback__))
