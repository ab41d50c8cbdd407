"""Waiting for runs to end. An end in this process is reported with its outcome; other hints of this process arrive at
once, changes of other processes soon, and polling finds everything."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, Self
from weakref import WeakValueDictionary

from holdfast.core import events as e
from holdfast.errors import StoreError
from holdfast.ports.store import OTHERS, Store

FIRST_LOOK, LONGEST_LOOK, POLL = 0.001, 0.02, 1.0
EACH = 0.0001
"""Minimum seconds between two looks per waiter, however much others write: about twice the cost of one look."""


class Handle(Protocol):
    """The handle of a run that was made here."""

    @property
    def id(self) -> str: ...

    def told(self, end: e.ChildEnded) -> None: ...


class Waiting:
    """Wakes callers that wait for news of a run, in the order in which they came. One look per event loop serves all of
    them."""

    def __init__(self, store: Store) -> None:
        self.store: Store = store
        self._listening: dict[str, dict[Listening, None]] = {}
        self._lookers: dict[asyncio.AbstractEventLoop, _Looker] = {}
        self._handles: WeakValueDictionary[str, Handle] = WeakValueDictionary()
        self._lock = threading.Lock()
        self._hinted_on: dict[asyncio.AbstractEventLoop, list[Listening]] = {}
        self._unsubscribe = store.subscribe(self._hinted)
        self.is_settled_here: Callable[[str], bool] = nowhere
        """Whether a worker of this process is about to process what was written for the run. If that is the end, the
        worker reports it, and the store need not be asked."""
        self.is_held_here: Callable[[str], bool] = nowhere
        """Whether a worker of this process advances the run."""

    def close(self) -> None:
        self._unsubscribe()

    @property
    def is_quiet(self) -> bool:
        """Whether nobody waits here."""
        return not self._listening

    def expect(self, handle: Handle) -> None:
        """Registers the handle of a run that begins here, so that it is told of the end even before it asks."""
        self._handles[handle.id] = handle

    def ended(self, end: e.ChildEnded) -> None:
        """A worker of this process saw a run's end become durable."""
        handle = self._handles.pop(end.run, None)
        if handle is not None:
            handle.told(end)
        if end.run in self._listening:
            self._wake(end.run, end)

    def _hinted(self, run: str) -> None:
        if run == OTHERS:
            with self._lock:
                for looker in self._lookers.values():
                    looker.others_wrote()
        elif run in self._listening:
            self._wake(run, None, is_settled=self.is_settled_here(run))

    def _wake(self, run: str, end: e.ChildEnded | None, *, is_settled: bool = False) -> None:
        """Wakes the listeners; if a worker of this process is about to report more, only those that want every hint."""
        here = _running_loop()
        with self._lock:
            for listening in self._listening.get(run, ()):
                if is_settled and not listening.every:
                    continue
                listening.end = end or listening.end
                if listening.loop is here:
                    listening.wake()
                    continue
                together = self._hinted_on.get(listening.loop)
                if together is not None:
                    together.append(listening)
                elif not listening.loop.is_closed():  # one wake-up for all hints of a transaction
                    self._hinted_on[listening.loop] = [listening]
                    listening.loop.call_soon_threadsafe(self._deliver, listening.loop)

    def _deliver(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            together = self._hinted_on.pop(loop, [])
        for listening in together:
            listening.wake()

    def listen(self, run: str, *, every: bool = False) -> Listening:
        """News of one run, for the running loop. `every`: each reported turn, not only the end."""
        return Listening(self, run, every=every)

    def add(self, listening: Listening) -> None:
        loop = listening.loop
        with self._lock:
            self._listening.setdefault(listening.run, {})[listening] = None
            looker = self._lookers.get(loop)
            if looker is None:
                looker = self._lookers[loop] = _Looker(loop, self)
        looker.add(listening)

    def remove(self, listening: Listening) -> None:
        loop = listening.loop
        with self._lock:
            others = self._listening.get(listening.run)
            if others is not None:
                others.pop(listening, None)
                if not others:
                    del self._listening[listening.run]
            if self._lookers[loop].remove(listening):
                del self._lookers[loop]


def nowhere(run: str) -> bool:
    """Always False: there is no worker here."""
    return False


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class _Looker:
    """One per event loop with waiters. Looks for writes of others, less often while nothing changes. Once a second it
    wakes all waiters in any case, except those whose run a worker of this process advances: that worker reports the
    end."""

    def __init__(self, loop: asyncio.AbstractEventLoop, waiting: Waiting) -> None:
        self._loop = loop
        self._waiting = waiting
        self._listening: dict[Listening, None] = {}
        self._seen = waiting.store.changes()
        self._pause = FIRST_LOOK
        self._woken_at = loop.time()
        self._changed_at = -FIRST_LOOK
        self._is_told = False
        self._handle = loop.call_later(FIRST_LOOK, self._look)

    def add(self, listening: Listening) -> None:
        self._listening[listening] = None

    def remove(self, listening: Listening) -> bool:
        """Removes a waiter. Returns True if none is left."""
        self._listening.pop(listening, None)
        if self._listening:
            return False
        self._handle.cancel()
        return True

    def others_wrote(self) -> None:
        """Others wrote. From any thread. Repeated calls do not wake waiters more often."""
        if not self._is_told:
            self._is_told = True
            with suppress(RuntimeError):  # the loop was closed: it has no waiters
                self._loop.call_soon_threadsafe(self._sooner)

    @property
    def _least(self) -> float:
        """Minimum seconds between two reactions to changes."""
        return min(max(FIRST_LOOK, EACH * len(self._listening)), POLL)

    def _sooner(self) -> None:
        self._is_told = False
        soon = self._changed_at + self._least
        if not self._handle.cancelled() and soon < self._handle.when():
            self._handle.cancel()
            self._handle = self._loop.call_at(soon, self._look)

    def _look(self) -> None:
        try:
            changes = self._waiting.store.changes()
        except StoreError:  # closed, or out of reach: those who wait ask the store themselves
            changes = self._seen
        now = self._loop.time()
        has_changed = changes != self._seen
        self._seen = changes
        self._pause = self._least if has_changed else min(self._pause * 1.5, max(LONGEST_LOOK, self._least))
        if has_changed:
            self._changed_at = now
        if has_changed or now - self._woken_at >= POLL:
            self._woken_at = now
            for listening in self._listening:
                if has_changed or listening.every or not self._waiting.is_held_here(listening.run):
                    listening.wake()
        self._handle = self._loop.call_later(self._pause, self._look)


class Listening:
    """`with waiting.listen(run) as news: await news.next(timeout)`. `end` is the run's end, once it was
    reported."""

    __slots__ = ("_has_news", "_waiter", "_waiting", "end", "every", "loop", "run")

    def __init__(self, waiting: Waiting, run: str, *, every: bool) -> None:
        self.every: bool = every
        self._waiting = waiting
        self.run: str = run
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self.end: e.ChildEnded | None = None
        self._has_news = False
        self._waiter: asyncio.Future[None] | None = None

    def __enter__(self) -> Self:
        self._waiting.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._waiting.remove(self)

    def wake(self) -> None:
        """Wakes the listener: there is news, or it should look again. On the thread of its loop."""
        self._has_news = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def next(self, left: float | None) -> None:
        """Waits for news, or until it should look again, at most `left` seconds."""
        if not self._has_news:
            self._waiter = self.loop.create_future()
            if left is None:
                await self._waiter
            else:
                await asyncio.wait([self._waiter], timeout=left)
        self._has_news = False
