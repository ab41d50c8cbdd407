"""Durable keys: how a call in a workflow body finds its outcome again.

The first use of a name keeps it, later ones become `name:1`, `name:2`, …, skipping names used explicitly. One counter
serves all kinds of call, starts anew with each pass, and is asked at the moment of the call, never later.
"""

from __future__ import annotations

import re

_NUMBERED = re.compile(r"@[0-9]+\Z")


def outer_key(key: str, *numbers: int) -> str:
    """What the outside knows a call by: child runs are named, and outside systems are asked, under this key.

    A key is unique in a pass, but a run may use it again for another deed: after `continue_as` (the first number is the
    generation of the run), or in a later pass after the deed was undone (the second counts that). Different keys and
    numbers never give the same text; a key used once is known as itself.
    """
    for number in numbers:
        if number or _NUMBERED.search(key):
            key = f"{key}@{number}"
    return key


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
