"""An event loop on virtual time: it never waits for a timer, and it stops when nothing is left to do.

::

    ready callbacks ──▶ run them                              (as asyncio does)
    nothing ready   ──▶ threads, processes, I/O under way?    wait for those, really
                   └──▶ a timer within the horizon?           move the clock there, continue
                   └──▶ else                                  stop: the world is settled

Only the selector and the clock are ours; tasks, futures and timers are asyncio's. Work in threads is taken in turns
with the loop, so that the same test gives the same order.
"""

from __future__ import annotations

import asyncio
import math
import selectors
import threading
from collections.abc import Callable, Coroutine
from contextvars import Context
from datetime import timedelta
from typing import Any, TypeVar, TypeVarTuple, Unpack

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.core.durations import format_duration
from holdfast.errors import HoldfastError, NotAllowedHere

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

TURN = 1.0
"""Real seconds that a thread works alone before the loop continues beside it."""

THREADS = 60.0
"""Real seconds to wait for a silent thread or process."""

WIRES = 2.0
"""Real seconds that open connections may be silent while a step's body runs."""

LONGEST = timedelta(hours=1)
"""Virtual time that opening and closing may take."""

MICRO = 1_000_000

NOW = 0.5 / MICRO
"""Seconds by which a timer may be ahead and still be due: the clock counts whole microseconds, floats do not. Asyncio's
own tolerance of a nanosecond is lost in a time of some months, and the loop would spin forever on a timer of this very
moment."""


class _Selector(selectors.DefaultSelector):
    """Asks the loop what to do when it would have to wait."""

    patience: Callable[[], float]
    idle: Callable[[float | None], float | None]

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Events from outside; if there are none, what `idle` decides."""
        if timeout is None or timeout > 0:
            patience = self.patience()
            if patience and (found := super().select(patience)):
                return found
            timeout = self.idle(timeout)
        return super().select(timeout)


class VirtualLoop(asyncio.SelectorEventLoop):
    """See the module. `is_busy` says whether a step's body is running."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._horizon = 0.0
        self._is_finishing = False
        self._working = 0
        self._news = threading.Event()
        self._processes: list[asyncio.SubprocessTransport] = []
        self._is_enough = _never
        self.is_busy: Callable[[], bool] = _never
        self._waiter = _Selector()
        self._waiter.patience, self._waiter.idle = self._patience, self._idle
        super().__init__(self._waiter)
        self._clock_resolution = NOW

    # -- driving it ----------------------------------------------------------------------------------------------------

    def settle(self, by: timedelta = timedelta(), is_enough: Callable[[], bool] | None = None) -> None:
        """Lets that much time pass, with everything that happens in it; less, once it is enough."""
        refuse_nesting()
        target = self._clock.now() + by
        self._horizon, self._is_enough = self.time() + by.total_seconds(), is_enough or _never
        try:
            self.run_forever()
        finally:
            self._is_enough = _never
        left = target - self._clock.now()
        if left > timedelta() and not (is_enough or _never)():
            self._clock.advance(left)

    def finish(self, work: Coroutine[Any, Any, T], what: str) -> T:
        """Runs a coroutine to its end, however much time passes: opening and closing are not part of the test's
        time."""
        refuse_nesting()
        task = self.create_task(work)
        task.add_done_callback(lambda _: self.stop())
        self._horizon, self._is_finishing = self.time() + LONGEST.total_seconds(), True
        try:
            self.run_forever()
        finally:
            self._is_finishing = False
        if not task.done():
            task.cancel()
            self.settle()
            raise HoldfastError(f"{what} did not end within {format_duration(LONGEST)} of virtual time")
        return task.result()

    def end(self) -> None:
        """Closes the loop and what belongs to it."""
        try:
            self.finish(self.shutdown_asyncgens(), "closing generators")
            self._working += 1  # the thread that waits for the other threads
            self.finish(self.shutdown_default_executor(), "ending threads")
        finally:
            self.close()

    def _idle(self, timeout: float | None) -> float | None:
        """Nothing is ready, and the next timer is `timeout` seconds ahead. Returns how long to really wait."""
        if timeout is not None and self.time() + timeout <= self._horizon + NOW and not self._is_enough():
            self._clock.advance(timedelta(microseconds=max(1, math.ceil(timeout * MICRO - 0.1))))
            return 0
        self.stop()
        return 0

    def _patience(self) -> float:
        """Seconds to wait for the outside, if something is under way there."""
        self._processes = [process for process in self._processes if process.get_returncode() is None]
        if self._working or self._processes:
            return THREADS
        has_wires = len(self._waiter.get_map()) > 1  # one is the loop's own
        if has_wires and self._is_finishing:
            return THREADS
        return WIRES if has_wires and self.is_busy() else 0

    # -- what asyncio calls --------------------------------------------------------------------------------------------

    def time(self) -> float:
        """Virtual seconds."""
        return self._clock.boot()[1]

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """As asyncio's. A thread that calls this has had its turn."""
        handle = super().call_soon_threadsafe(callback, *args, context=context)
        self._news.set()
        return handle

    def run_in_executor(self, executor: Any, func: Callable[[Unpack[Ts]], T], *args: *Ts) -> asyncio.Future[T]:
        """As asyncio's, alternating: the loop waits until the thread has ended or asks for something."""
        self._news.clear()
        self._working += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._worked)
        self._news.wait(TURN)
        return future

    def _worked(self, _: object) -> None:
        self._working -= 1

    async def subprocess_exec(self, *args: Any, **kwargs: Any) -> Any:
        """As asyncio's; the loop really waits for the process."""
        transport, protocol = await super().subprocess_exec(*args, **kwargs)
        self._processes.append(transport)
        return transport, protocol


def _never() -> bool:
    return False


def refuse_nesting() -> None:
    """Refuses to run inside a running loop, which would block."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise NotAllowedHere("sim drives an event loop of its own: write `def test_…(sim)`, without async")


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits, such as the memory store's methods."""
    try:
        work.send(None)
    except StopIteration as done:
        found: T = done.value
        return found
    work.close()
    raise HoldfastError("the memory store does not wait")
