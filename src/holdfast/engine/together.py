"""Outcomes of bodies that end in one pass of the event loop, so that one turn takes them all.

The first is handed on in the next pass, with everything that came until then: bodies that are ready together end
together, however many commits there would be otherwise. A run with one body never comes here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class Together(Generic[T]):
    """What is collected in a pass, and who takes it."""

    __slots__ = ("_items", "_take")

    def __init__(self, take: Callable[[Sequence[T]], None]) -> None:
        self._take = take
        self._items: list[T] = []

    def __bool__(self) -> bool:
        return bool(self._items)

    def add(self, item: T) -> None:
        """Adds an item to those of this pass."""
        self._items.append(item)
        if len(self._items) == 1:
            asyncio.get_running_loop().call_soon(self._hand_on)

    def _hand_on(self) -> None:
        items, self._items = self._items, []
        self._take(items)
