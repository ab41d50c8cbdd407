"""Durable keys: how a call in a workflow body finds its outcome again.

The first use of a name keeps it, later ones become `name:1`, `name:2`, …, skipping names used explicitly. One counter
serves all kinds of call, starts anew with each pass, and is asked at the moment of the call, never later.
"""

from __future__ import annotations


class Keys:
    """The keys given out in one pass."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def take(self, name: str) -> str:
        """The key of the next call of that name."""
        taken = self._taken
        if name not in taken:
            taken.add(name)
            return name
        number = self._next.get(name, 1)
        key = f"{name}:{number}"
        while key in taken:
            number += 1
            key = f"{name}:{number}"
        self._next[name] = number + 1
        taken.add(key)
        return key
