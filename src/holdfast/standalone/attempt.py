"""One body, tried under its policy: attempts, time limits, circuit breaker, and observers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast.authoring.machine.breaker import Breaker
from holdfast.authoring.machine.state_bodies import FAILURES
from holdfast.core.durations import parse_duration
from holdfast.core.retry import Retry
from holdfast.errors import CircuitOpen, InvalidInput, Permanent, RetryAfter, UsageError

Tell = Callable[..., None]


class Exhausted(Exception):
    """Private: the final failure of a state, and its attempt. 0: no body was called."""

    def __init__(self, attempt: int, error: BaseException) -> None:
        super().__init__(attempt, error)
        self.attempt = attempt
        self.error = error


async def attempt(
    body: Callable[[], Awaitable[Any]],
    *,
    policy: Retry,
    limit: timedelta | None,
    breaker: Breaker | None,
    raises: tuple[type[Exception], ...],
    task: str,
    tell: Tell,
    pause: Callable[[float], Awaitable[None]],
    begin: Callable[[int], None],
    failed: BaseException | None = None,
) -> Any:
    """The value of the body. Raises `Exhausted`. `failed` is the error of a first attempt that was made elsewhere."""
    number = 0
    while True:
        number += 1
        if failed is None:
            begin(number)
            permit = _permit(breaker, tell)
            tell("task_started", task, number)
            try:
                async with asyncio.timeout(None if limit is None else limit.total_seconds()):
                    value = await body()
            except FAILURES as error:
                failed = error
            except BaseException as error:
                tell("task_failed", task, number, error)
                if breaker is not None and permit is not None:
                    breaker.failed(permit)
                raise
            else:
                if breaker is not None and permit is not None:
                    breaker.succeeded(permit)
                tell("task_succeeded", task, number)
                return value
            if breaker is not None and permit is not None:
                breaker.failed(permit)
        delay = next_delay(failed, number, policy, raises)
        if delay is None:
            tell("task_failed", task, number, failed)
            raise Exhausted(number, failed) from failed
        tell("retry", number, delay, failed)
        failed = None
        await pause(delay)


def next_delay(error: BaseException, number: int, policy: Retry, raises: tuple[type[Exception], ...]) -> float | None:
    """Seconds until the next attempt; None if another would not help or none is left."""
    is_wanted = None if isinstance(error, RetryAfter) else policy.wants(error)
    if is_wanted is False or isinstance(error, (Permanent, UsageError, InvalidInput)):
        return None
    if isinstance(error, raises) and is_wanted is None:
        return None
    if policy.attempts is not None and number >= policy.attempts:
        return None
    delay = policy.delay(number, random.random()).total_seconds()
    if isinstance(error, RetryAfter):
        delay = max(delay, parse_duration(error.after, what="RetryAfter").total_seconds())  # type: ignore[arg-type]
    return delay


def _permit(breaker: Breaker | None, tell: Tell) -> Any:
    if breaker is None:
        return None
    try:
        return breaker.ask()
    except CircuitOpen as error:
        tell("circuit_open")
        raise Exhausted(0, error) from error


def wall_clock() -> datetime:
    """The time of day: standalone machines have no other clock. Under an app the journal has the time."""
    return datetime.now(UTC)


async def to_the_end(work: Awaitable[Any]) -> tuple[asyncio.Future[Any], asyncio.CancelledError | None]:
    """Waits for work that no cancellation may interrupt; the cancellation is returned."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    return task, cancelled
