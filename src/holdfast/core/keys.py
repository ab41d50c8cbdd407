"""Durable keys: how a call in a workflow body finds its outcome again.

The first use of a name keeps it, later ones become `name:1`, `name:2`, …, skipping names used explicitly. One counter
serves all kinds of call, starts anew with each pass, and is asked at the moment of the call, never later.

A key is *spent* when an earlier pass did the deed and took it back: the same call now gets a key of its own (`name^2`,
`name^3`, …), while the calls after it keep theirs.
"""

from __future__ import annotations

from collections.abc import Collection


class Keys:
    """The keys given out in one pass."""

    def __init__(self, spent: Collection[str] = ()) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}
        self._spent = spent

    def take(self, name: str) -> str:
        """The key of the next call of that name."""
        taken = self._taken
        if name not in taken:
            key = name
        else:
            number = self._next.get(name, 1)
            key = f"{name}:{number}"
            while key in taken:
                number += 1
                key = f"{name}:{number}"
            self._next[name] = number + 1
        taken.add(key)
        return self._fresh(key) if key in self._spent else key

    def peek(self, name: str) -> str:
        """The key that `take` would give, without taking it."""
        return Keys._copy(self).take(name)

    def _copy(self) -> Keys:
        keys = Keys(self._spent)
        keys._taken, keys._next = set(self._taken), dict(self._next)
        return keys

    def _fresh(self, key: str) -> str:
        life = 2
        while (fresh := f"{key}^{life}") in self._spent or fresh in self._taken:
            life += 1
        self._taken.add(fresh)
        return fresh
