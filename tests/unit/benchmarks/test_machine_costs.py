"""What machines cost, as counts: figures of time belong to the benchmark, these hold on every computer."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from benchmarks.machines import Ping, by_hand, game, long_log
from holdfast.core.machine_history import rehydrate

TRANSITIONS = 1_000


def calls(work: Callable[[], Any]) -> int:
    """Calls of functions, Python's and C's, that it makes."""
    count = 0

    def seen(frame: object, event: str, arg: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def played(run: Callable[[Any], Coroutine[Any, Any, Any]]) -> Callable[[], Any]:
    return lambda: asyncio.run(run(Ping(TRANSITIONS)))


def test_a_machine_without_a_store_calls_little_more_than_the_loop_by_hand() -> None:
    """Promise: two calls a transition more than `while`: a look into a table, and the path."""
    game.build()
    extra = calls(played(game.run)) - calls(played(by_hand))
    assert extra <= 2 * TRANSITIONS + 600, extra / TRANSITIONS


def test_a_long_log_is_read_in_a_few_calls_a_row() -> None:
    """Promise: the cost of a row does not grow with the log."""
    counts = [calls(lambda size=size: rehydrate("run", long_log(size))) / size for size in (500, 5_000)]  # type: ignore[misc]
    assert counts[1] <= counts[0] * 1.2
    assert counts[1] <= 12
