"""A profile of one thread, whatever other threads are profiled.

Up to Python 3.11 that is cProfile. From 3.12 on cProfile profiles a whole process and refuses a second thread; the
profile here is slower, but its times are only used as shares.
"""

from __future__ import annotations

import cProfile
import sys
import time
from collections.abc import Iterator
from cProfile import label
from types import FrameType, ModuleType
from typing import Any, Protocol

Place = tuple[str, int, str]
"""File, line and function, as cProfile names them."""

IS_PER_THREAD = tuple(sys.version_info[:2]) < (3, 12)
"""Whether cProfile profiles the thread that enables it, and no other."""


class ThreadProfile(Protocol):
    """Calls and own processor seconds of every function of a thread."""

    def enable(self) -> None:
        """From now on, in the calling thread."""
        ...

    def disable(self) -> None:
        """No longer, called by any thread."""
        ...

    def entries(self) -> Iterator[tuple[Place, int, float]]:
        """Function, calls, own seconds."""
        ...


def new_profile() -> ThreadProfile:
    """One for a thread."""
    return Compiled() if IS_PER_THREAD else Traced()


class Compiled(cProfile.Profile):
    """That of cProfile."""

    def __init__(self) -> None:
        super().__init__(time.thread_time)

    def entries(self) -> Iterator[tuple[Place, int, float]]:
        """See `ThreadProfile`."""
        for entry in self.getstats():
            yield label(entry.code), entry.callcount, entry.inlinetime


class Traced:
    """That of `sys.setprofile`, which every thread sets for itself."""

    def __init__(self) -> None:
        self._calls: dict[Place, int] = {}
        self._own: dict[Place, float] = {}
        self._stack: list[Place] = []
        self._last = 0.0
        self._is_over = False

    def enable(self) -> None:
        """See `ThreadProfile`."""
        self._last = time.thread_time()
        sys.setprofile(self._note)

    def disable(self) -> None:
        """See `ThreadProfile`. The thread itself stops at its next call."""
        self._is_over = True

    def entries(self) -> Iterator[tuple[Place, int, float]]:
        """See `ThreadProfile`."""
        for place, calls in list(self._calls.items()):
            yield place, calls, self._own.get(place, 0.0)

    def _note(self, frame: FrameType, event: str, function: Any) -> None:
        if self._is_over:
            sys.setprofile(None)
            return
        if self._stack:
            place = self._stack[-1]
            self._own[place] = self._own.get(place, 0.0) + time.thread_time() - self._last
        if event in {"call", "c_call"}:
            place = label(frame.f_code) if event == "call" else ("~", 0, _named(function))
            self._calls[place] = self._calls.get(place, 0) + 1
            self._stack.append(place)
        elif self._stack:
            self._stack.pop()
        self._last = time.thread_time()


def _named(function: Any) -> str:
    """A function of C, as cProfile names it."""
    owner: Any = getattr(function, "__self__", None)
    if owner is None or isinstance(owner, ModuleType):
        return f"<built-in method {function.__module__}.{function.__name__}>"
    kind: type[object] = owner.__class__
    return f"<method {function.__name__!r} of '{kind.__module__}.{kind.__qualname__}' objects>"
