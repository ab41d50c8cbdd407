"""The body of a step with `tx=True`: it writes in a transaction of the store, which commits afterwards, with its
turn."""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeAlias

from holdfast.authoring.script.context import StepScope, running_step
from holdfast.core.specs import StepSpec
from holdfast.ports.transactions import OpenTransaction, holding

LAST_WORDS = 1.0
"""Seconds for which a thread whose attempt is over may still use its connection."""

Submit: TypeAlias = Callable[[Callable[[], Any]], "Future[Any]"]
"""Hands work to a thread."""


async def run_in_transaction(
    spec: StepSpec, function: Callable[..., Any], scope: StepScope, args: Any, kwargs: Any, submit: Submit
) -> tuple[bytes, OpenTransaction]:
    """The encoded result of the body, and its transaction, still open. If the body raises, everything it wrote is
    rolled back. `function` is the step's, with its hooks."""
    is_async = spec.executor == "async"
    transaction = await scope.surroundings.transact(is_async=is_async)
    scope.connection = transaction.connection
    holding.set(transaction)
    try:
        if is_async:
            running_step.set(scope)
            value = await function(*args, **kwargs)
            if (rest := transaction.finish()) is not None:
                await rest
        else:

            def finished(*args: Any, **kwargs: Any) -> Any:
                value = function(*args, **kwargs)
                transaction.finish()
                return value

            value = await _in_thread(finished, scope, args, kwargs, submit, transaction)
        encoded, _ = spec.result.round_trip(value, f"result of {spec.name}")
    except asyncio.CancelledError:
        if is_async:
            transaction.give_up()
        raise
    except BaseException:
        await transaction.roll_back()
        raise
    finally:
        holding.set(None)
    return encoded, transaction


async def _in_thread(
    function: Callable[..., Any],
    scope: StepScope,
    args: Any,
    kwargs: Any,
    submit: Submit,
    transaction: OpenTransaction,
) -> Any:
    """Runs the body in a thread, which cannot be ended. Once its attempt is over its statement is interrupted, and its
    transaction is rolled back when the thread ends, or a little later: it can never commit."""
    context = contextvars.copy_context()
    context.run(running_step.set, scope)
    work = submit(functools.partial(context.run, function, *args, **kwargs))
    try:
        return await asyncio.wrap_future(work)
    except asyncio.CancelledError:
        transaction.interrupt()
        asyncio.get_running_loop().call_later(LAST_WORDS, transaction.give_up)
        work.add_done_callback(lambda _: transaction.give_up())
        raise
