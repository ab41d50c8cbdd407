"""What `@step`, `@workflow` and `@remote` accept, and what a decorated function is to other programs."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import remote, step, workflow
from holdfast.errors import DefinitionError


@pytest.mark.parametrize(
    ("decorate", "wrong", "hint"),
    [
        (step, "retries", "@step has no option retries=. Did you mean retry or raises?"),
        (step, "time_out", "@step has no option time_out=. Did you mean timeout?"),
        (workflow, "steps", "@workflow has no option steps=. Its options are name, version, "),
        (workflow, "dead_line", "@workflow has no option dead_line=. Did you mean deadline?"),
        (remote, "retry", "@remote has no option retry=. Its options are name, version, raises, accepts."),
    ],
)
def test_an_unknown_option_is_refused_with_the_near_ones(decorate: Callable[..., Any], wrong: str, hint: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        decorate(**{wrong: 5})
    assert hint in str(refused.value)


@step
async def load() -> None: ...


@step
def store() -> None: ...


def test_an_async_step_is_a_coroutine_function_and_a_sync_one_is_not() -> None:
    """Promise: frameworks that ask how to call a function get the right answer for a step."""
    asked = inspect.iscoroutinefunction if sys.version_info >= (3, 12) else asyncio.iscoroutinefunction
    assert asked(load)
    assert not asked(store)
