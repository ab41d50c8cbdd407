"""A transaction that several pieces of work share, and the outcome of each if it fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

W = TypeVar("W")
A = TypeVar("A")


def settle(
    work: Sequence[W], perform: Callable[[Sequence[W]], Sequence[A]], is_of_one: Callable[[Exception], bool]
) -> list[A | Exception]:
    """The answer to each piece of work, or its error. All share one call of `perform`, which is one transaction. If
    that fails and `is_of_one` says that a single piece may be the reason, each is performed alone, so that none harms
    another."""
    try:
        return list(perform(work))
    except Exception as error:  # noqa: BLE001 - raised for the waiter
        if len(work) == 1 or not is_of_one(error):
            return [error] * len(work)
    return [answer for each in work for answer in settle([each], perform, is_of_one)]
