"""Threads for sync bodies: only as many are awake as the bodies need.

A pool that wakes a thread for every body makes them all compete for the interpreter, while most bodies end sooner than
a thread wakes. Here one thread is woken at a time. Before it begins a body it wakes the next one if more are queued, so
bodies that block run side by side; after a short body the same thread takes the next. The event loop is told of all
outcomes together, with one wake-up. After some pieces of work a thread goes to the end of the pool's queue: other users
of the pool get a turn, however many bodies come.

A thread that runs out of work calls `idle`, so that what belongs to the thread, such as a database connection, can be
closed there.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeAlias, cast

IN_A_ROW = 32
"""Pieces of work of one thread before it queues again."""

Work: TypeAlias = Callable[[], Any]
Ended: TypeAlias = tuple["asyncio.Future[Any]", Any, BaseException | None]


class Threads:
    """An executor for one event loop. Its futures belong to the loop, and `run_in_executor` passes them on unchanged: a
    thread-safe future and its way back to the loop would cost more than most bodies."""

    def __init__(self, most: int, name: str, idle: Callable[[], None] | None = None) -> None:
        self._idle = idle
        self.pool: ThreadPoolExecutor = ThreadPoolExecutor(most, thread_name_prefix=name)
        self._queued: deque[tuple[asyncio.Future[Any], Work]] = deque()
        self._ended: deque[Ended] = deque()
        self._turn = threading.Lock()
        self._is_waking = False  # a thread is on its way and has not yet looked at the queue
        self._is_told = False

    def run(self, work: Work) -> asyncio.Future[Any]:
        """Like `submit`, through the event loop, which may handle threads differently, as in tests."""
        return asyncio.get_running_loop().run_in_executor(cast("Executor", self), work)

    def submit(self, work: Work, /) -> asyncio.Future[Any]:
        """The result or error of the work, on this event loop. If cancelled before it began, it never begins."""
        future = asyncio.get_running_loop().create_future()
        with self._turn:
            self._queued.append((future, work))
            self._is_told = False  # a waiting loop is to hear of it at once
            is_needed, self._is_waking = not self._is_waking, True
        if is_needed:
            self.pool.submit(self._work)
        return future

    def submit_alone(self, work: Work, /) -> concurrent.futures.Future[Any]:
        """Like `submit`, for work that is not to be queued behind other bodies."""
        return self.pool.submit(self._work_alone, work)

    def withdraw(self, future: asyncio.Future[Any]) -> bool:
        """Whether its work had not begun; then it never will."""
        with self._turn:
            found = next((queued for queued in self._queued if queued[0] is future), None)
            if found is not None:
                self._queued.remove(found)
        return found is not None

    def shutdown(self) -> None:
        """Nothing queued begins from now on; running work is left alone."""
        with self._turn:
            self._queued.clear()
        self.pool.shutdown(wait=False, cancel_futures=True)

    def _work(self) -> None:
        """The loop of a thread: works until nothing is queued, or until others of the pool get their turn."""
        for number in range(IN_A_ROW):
            if not self._has_worked(has_come=number > 0):
                if number > 0:
                    self._rest()
                return
        self._wake_if_needed()
        self._rest()

    def _work_alone(self, work: Work) -> Any:
        try:
            return work()
        finally:
            self._rest()

    def _rest(self) -> None:
        """Called in a thread that has worked and finds nothing more to do."""
        if self._idle is not None and not self._queued:
            self._idle()

    def _has_worked(self, *, has_come: bool) -> bool:
        """Does one piece of work. Keeps no reference to it afterwards."""
        found = self._next(has_come=has_come)
        if found is None:
            return False
        future, work = found
        if not future.cancelled():
            value, error = _outcome(work)
            del found, work  # before the caller hears of the end, and may look at once
            self._tell(future, value, error)
        return True

    def _next(self, *, has_come: bool) -> tuple[asyncio.Future[Any], Work] | None:
        with self._turn:
            if not has_come:
                self._is_waking = False
            if not self._queued:
                return None
            found = self._queued.popleft()
        self._wake_if_needed()
        return found

    def _wake_if_needed(self) -> None:
        with self._turn:
            is_needed = bool(self._queued) and not self._is_waking
            self._is_waking = self._is_waking or is_needed
        if is_needed:
            with suppress(RuntimeError):  # shut down meanwhile: nothing waits for it
                self.pool.submit(self._work)

    def _tell(self, future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
        self._ended.append((future, value, error))
        if not self._is_told:
            self._is_told = True
            with suppress(RuntimeError):  # the loop is closed: nothing waits for it
                future.get_loop().call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        """Reports everything that ended. On the event loop."""
        self._is_told = False
        while self._ended:
            future, value, error = self._ended.popleft()
            if future.cancelled():
                continue
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)


def _outcome(work: Work) -> tuple[Any, BaseException | None]:
    try:
        return work(), None
    except StopIteration as raised:  # a future cannot hold it
        error = RuntimeError("a plain function raised StopIteration")
        error.__cause__ = raised
        return None, error
    except BaseException as raised:  # noqa: BLE001 it belongs to the waiting caller
        return None, raised
