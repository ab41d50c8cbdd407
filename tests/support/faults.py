"""A store that fails on demand: it stands before a real one and refuses, or loses the answer of, chosen calls."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Literal, cast

from holdfast.errors import StoreError, StoreUnavailable
from holdfast.ports.journal import Commit, Verdict
from holdfast.ports.leases import Beat, Heart
from holdfast.ports.store import Store

Mode = Literal["refused", "answer lost"]
"""`refused`: nothing was written. `answer lost`: it was done, and nobody is told."""


class FaultyStore:
    """Hands every call on, but the chosen one."""

    def __init__(self, inner: Store, *, error: Callable[[], StoreError] | None = None) -> None:
        self.inner = inner
        self.calls: Counter[str] = Counter()
        self.fired: list[str] = []
        self.before: Callable[[str, tuple[Any, ...]], Awaitable[None]] | None = None
        self.error = error or (lambda: StoreUnavailable("injected"))
        self._plan: dict[tuple[str, int], Mode] = {}

    def fail(self, method: str, *numbers: int, mode: Mode = "refused") -> None:
        """The n-th calls of that method fail, counted from 1 and from the beginning."""
        for number in numbers:
            self._plan[method, number] = mode

    def clear(self) -> None:
        """Nothing fails any more."""
        self._plan.clear()

    @property
    def store(self) -> Store:
        """Itself, for those who take a store."""
        return cast("Store", self)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if not inspect.iscoroutinefunction(found) or name == "close":
            return found

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await self.perform(name, found, args, kwargs)

        self.__dict__[name] = call  # found there from now on
        return call

    async def perform(
        self, name: str, found: Callable[..., Awaitable[Any]], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """One call, as the plan wants it; `found` is the real one."""
        mode = self.mode_of(name)
        if self.before is not None:
            await self.before(name, args)
        if mode == "refused":
            raise self.error()
        answer = await found(*args, **kwargs)
        if mode == "answer lost":
            raise self.error()
        return answer

    def commit_now(self, commit: Commit) -> Verdict | None:
        """Never: every turn goes the way that can fail."""
        return None

    def heart(self, instance: str, ttl: Any) -> Heart:
        """A heart that fails likewise, under the name `beat`."""
        return cast("Heart", _FaultyHeart(self, self.inner.heart(instance, ttl)))

    def mode_of(self, name: str) -> Mode | None:
        """Counts a call, and says how it is to fail."""
        self.calls[name] += 1
        mode = self._plan.get((name, self.calls[name]))
        if mode is not None:
            self.fired.append(f"{name} {self.calls[name]} {mode}")
        return mode


class _FaultyHeart:
    def __init__(self, faulty: FaultyStore, inner: Heart) -> None:
        self._faulty = faulty
        self._inner = inner

    def beat(self, progress: str = "", *, recovery: str = "", frees: int = 100, takes_back: bool = True) -> Beat:
        mode = self._faulty.mode_of("beat")
        if mode == "refused":
            raise self._faulty.error()
        answer = self._inner.beat(progress, recovery=recovery, frees=frees, takes_back=takes_back)
        if mode == "answer lost":
            raise self._faulty.error()
        return answer

    def close(self) -> None:
        self._inner.close()
