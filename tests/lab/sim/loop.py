"""An event loop on virtual time that decides by seed which process moves next.

::

    actor 1  ▢▢▢     a callback belongs to the actor whose context it runs in;
    actor 2  ▢       each actor's are run in order, as asyncio does in one process;
    actor 3  ▢▢      whose turn it is, is chance; when nobody can move, time jumps to the next timer

A killed actor never moves again, whatever it was doing. A stalled one moves later. There are no threads: what is handed
to an executor runs at once.
"""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import asyncio
import heapq
import random
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from datetime import datetime, timedelta
from typing import Any, TypeVar, TypeVarTuple, Unpack

from holdfast.adapters.memory.clock import VirtualClock

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

ACTOR: ContextVar[int] = ContextVar("actor", default=0)
"""Who runs this code: a process of the simulated deployment. 0 is the world itself."""

HEART = 1000
"""The heartbeat's thread of actor n is the actor n + HEART."""

MOST = 400_000
"""Callbacks after which a simulation is taken to go round in circles."""


class Stuck(Exception):
    """The simulation does not come to an end."""


class SimulatedClock(VirtualClock):
    """A virtual clock of one thread: it needs no lock, and is asked at every move."""

    def __init__(self, start: datetime) -> None:
        super().__init__(start)
        self._wall = start
        self._micros = 0
        self._booted_at = 0.0
        self.seconds = 0.0
        self.latest = start

    def now(self) -> datetime:
        return self._wall

    def boot(self) -> tuple[str, float]:
        return f"boot-{self._boots}", self.seconds - self._booted_at

    def reboot(self) -> None:
        self._boots += 1
        self._booted_at = self.seconds

    def advance(self, by: timedelta | float) -> None:
        step = by if isinstance(by, timedelta) else timedelta(seconds=by)
        self._wall += step
        self.latest = max(self.latest, self._wall)
        self._micros += step // timedelta(microseconds=1)
        self.seconds = self._micros / 1_000_000

    def set(self, at: datetime) -> None:
        self._wall = at
        self.latest = max(self.latest, at)


class SeededLoop(asyncio.AbstractEventLoop):
    """See the module."""

    def __init__(self, clock: SimulatedClock, rng: random.Random) -> None:
        self._clock = clock
        self._chance = rng.random
        self._queues: dict[int, deque[asyncio.Handle]] = {}
        self._ready: list[int] = []
        self._timers: list[tuple[float, int, asyncio.TimerHandle, int]] = []
        self._count = 0
        self._dead: set[int] = set()
        self._stalls: dict[int, float] = {}
        self._is_over = False
        self.moves = 0
        self.actor = 0
        """Who moves. (A workflow's code has a context of its own, and cannot tell.)"""
        self.errors: list[str] = []
        self.tasks: list[asyncio.Task[Any]] = []

    # -- actors --------------------------------------------------------------------------------------------------------

    def spawn(self, actor: int, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A task of that actor."""
        return self.create_task(work, context=context_of(actor))

    def kill(self, actor: int) -> None:
        """It never moves again, and neither does its heartbeat."""
        for each in (actor, actor + HEART):
            self._dead.add(each)
            self._queues.pop(each, None)
            if each in self._ready:
                self._ready.remove(each)

    def stall(self, actor: int, seconds: float, *, with_heart: bool = True) -> None:
        """It does not move for so long."""
        for each in (actor, actor + HEART) if with_heart else (actor,):
            until = self.time() + seconds
            self._stalls[each] = max(until, self._stalls.get(each, until))
            if each in self._ready:
                self._ready.remove(each)

    @property
    def stalled(self) -> float:
        """Seconds until everybody moves again."""
        return max((until - self.time() for until in self._stalls.values()), default=0.0)

    def is_dead(self, actor: int) -> bool:
        """Whether it was killed."""
        return actor in self._dead

    def _enqueue(self, handle: asyncio.Handle, actor: int) -> None:
        if actor in self._dead:
            return
        queue = self._queues.get(actor)
        if queue is None:
            queue = self._queues[actor] = deque()
        if not queue and actor not in self._stalls:
            self._ready.append(actor)
        queue.append(handle)

    # -- running -------------------------------------------------------------------------------------------------------

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs until that is done, whatever the others still want."""
        task = self.spawn(0, work)
        task.add_done_callback(self._end)
        events._set_running_loop(self)
        try:
            self._is_over = False
            while not self._is_over:
                self._move()
        finally:
            events._set_running_loop(None)
        return task.result()

    def _end(self, _: object) -> None:
        self._is_over = True

    def _move(self) -> None:
        now = self._clock.seconds
        timers, ready = self._timers, self._ready
        while timers and timers[0][0] <= now:
            _, _, timer, actor = heapq.heappop(timers)
            if not timer.cancelled():
                self._enqueue(timer, actor)
        if self._stalls:
            self._unstall(now)
        if not ready:
            self._jump(now)
            return
        index = int(self._chance() * len(ready))
        actor = ready[index]
        queue = self._queues[actor]
        handle = queue.popleft()
        if not queue:
            ready[index] = ready[-1]
            ready.pop()
        self.moves += 1
        if self.moves > MOST:
            raise Stuck(f"{MOST} callbacks, and no end")
        if not handle.cancelled():
            self.actor = actor
            handle._run()

    def _unstall(self, now: float) -> None:
        for actor in [each for each, until in self._stalls.items() if until <= now]:
            del self._stalls[actor]
            if self._queues.get(actor):
                self._ready.append(actor)

    def _jump(self, now: float) -> None:
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        times = [self._timers[0][0]] if self._timers else []
        times += self._stalls.values()
        if not times:
            raise Stuck("nobody moves, and no timer is set")
        self._clock.advance(timedelta(microseconds=max(1, round((min(times) - now) * 1_000_000 + 0.5))))

    # -- what asyncio calls --------------------------------------------------------------------------------------------

    def time(self) -> float:
        return self._clock.seconds

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        if context is None:
            context = copy_context()
        handle = asyncio.Handle(callback, args, self, context)
        self._enqueue(handle, context.get(ACTOR, 0))
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """From the thread of an actor's heartbeat to the actor."""
        return self.call_soon(callback, *args, context=context or context_of(ACTOR.get() % HEART))

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        if context is None:
            context = copy_context()
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, timer, context.get(ACTOR, 0)))
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is found cancelled when its time comes."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: object = None, context: Context | None = None) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, context=context)
        task._log_destroy_pending = False  # type: ignore[attr-defined] # killed processes leave them behind
        self.tasks.append(task)  # nothing of a killed process may be collected, which would run its clean-up
        return task

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 whoever waits gets it
            future.set_exception(error)
        return future

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.errors.append(f"{context.get('message')}: {error!r}")

    def close(self) -> None:
        """Lets go of everything that was left in the middle of something. Nothing may be written from here on."""
        events._set_running_loop(self)  # a clean-up may want to begin something; that is let go of in its turn
        for task in self.tasks:
            if not task.done():
                with suppress(BaseException):  # a clean-up that wanted to wait
                    task.get_coro().close()
            elif not task.cancelled():
                task.exception()
        events._set_running_loop(None)
        self.tasks.clear()
        self._queues.clear()
        self._timers.clear()


def context_of(actor: int) -> Context:
    """A context in which that actor's code runs."""
    context = copy_context()
    context.run(ACTOR.set, actor)
    return context
