"""Durable keys: how a call in a workflow body finds its outcome again.

The first use of a name keeps it, later ones become `name:1`, `name:2`, …, skipping names used explicitly. One counter
serves all kinds of calls, restarts with each pass, and is read at the moment of the call, never later. A key is *spent*
when an earlier pass completed the call and undid it: the same call then gets a new key (`name^2`, `name^3`, …), while
later calls keep theirs.
"""

from __future__ import annotations

from collections.abc import Collection, Container

import msgspec


class Keys(msgspec.Struct, eq=False, gc=False):
    """The keys of one pass. Memory is proportional to the names used, not to the calls. For each name it remembers the
    next number: lower ones were assigned, or used explicitly.
    """

    _spent: Collection[str] = ()
    _next: dict[str, int] = {}

    def take(self, name: str) -> str:
        """The key of the next call of that name."""
        following = self._next
        number = following.get(name)
        if number is None and (":" not in name or not self._was_numbered(name)):
            key = name
            following[name] = 1
        else:
            number = number or 1
            while (key := f"{name}:{number}") in following:
                number += 1
            following[name] = number + 1
        return self.fresh(key, self._spent) if key in self._spent else key

    def peek(self, name: str) -> str:
        """The key that `take` would give, without taking it."""
        return Keys(self._spent, dict(self._next)).take(name)

    def _was_numbered(self, name: str) -> bool:
        """Whether a name that looks like a numbered key was assigned as one."""
        base, _, digits = name.rpartition(":")
        following = self._next.get(base, 0)
        if following <= 1 or not (digits.isdecimal() and len(digits) <= len(f"{following}")):
            return False
        return 0 < int(digits) < following and f"{int(digits)}" == digits

    def fresh(self, key: str, others: Container[str]) -> str:
        """A new key for the same call: neither spent, nor assigned, nor one of the others."""
        life = 2
        while (fresh := f"{key}^{life}") in self._spent or fresh in self._next or fresh in others:
            life += 1
        self._next[fresh] = 1
        return fresh
