"""What the kinds of states mean, apart from who performs them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from holdfast.authoring.machine.handlers import Definition
from holdfast.authoring.machine.interpretation import each_item, in_windows, polled
from holdfast.authoring.machine.marks import Again, ItemOutcome, More


class Refused(Exception):
    """What a look raises in these tests."""


def poll_of(errors: int, timeout: timedelta | None = None) -> Definition:
    return Definition("poll", poll_of, "here", errors=errors, timeout=timeout)


async def test_a_cursor_is_kept_before_the_next_window_starts_from_it() -> None:
    """Promise: every window gets the cursor as it was read back, the first one that of an earlier process."""
    seen: list[tuple[str, Any]] = []

    async def window(number: int, cursor: Any) -> Any:
        seen.append((f"window {number}", cursor))
        return More(cursor + 1) if number < 2 else "the end"

    async def keep(cursor: Any) -> Any:
        seen.append(("kept", cursor))
        return cursor * 10

    assert await in_windows(window, keep, 7) == "the end"
    assert seen == [("window 0", 7), ("kept", 8), ("window 1", 80), ("kept", 81), ("window 2", 810)]


@pytest.mark.parametrize(("errors", "is_forgiven"), [(1, False), (2, True)])
async def test_a_poll_forgives_that_many_failures_in_a_row(errors: int, is_forgiven: bool) -> None:
    """Promise: an answer in between starts the count again; waits are those of the last answer."""
    answers: list[Any] = [Refused(), Again(5), Refused(), Refused(), "found"]
    waits: list[tuple[int, float]] = []

    async def look(number: int) -> Any:
        if isinstance(answers[number], Exception):
            raise answers[number]
        return answers[number]

    async def wait(number: int, delay: float) -> None:
        waits.append((number, delay))

    polling = polled(poll_of(errors), look, wait, Refused, lambda _: False)
    if is_forgiven:
        assert await polling == "found"
        assert waits == [(1, 0.0), (2, 5), (3, 5), (4, 5)]
    else:
        with pytest.raises(Refused):
            await polling


async def test_a_declared_error_ends_a_poll_at_once() -> None:
    async def look(number: int) -> Any:
        raise Refused

    async def wait(number: int, delay: float) -> None:
        raise AssertionError("nothing is waited for")

    with pytest.raises(Refused):
        await polled(poll_of(5), look, wait, Refused, lambda error: isinstance(error, Refused))


async def test_items_keep_their_order_and_known_ones_are_not_done_again() -> None:
    """Promise: outcomes come in the order of the items, whatever an earlier process had done."""
    done: list[int] = []

    async def perform(index: int, item: str) -> ItemOutcome[Any]:
        done.append(index)
        return ItemOutcome(index, item.upper(), "")

    known: dict[int, ItemOutcome[Any]] = {1: ItemOutcome(1, "kept", "")}
    outcomes = await each_item(["a", "b", "c"], 2, perform, known)
    assert [x.value for x in outcomes] == ["A", "kept", "C"]
    assert sorted(done) == [0, 2]
