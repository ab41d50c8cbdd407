"""The deterministic event loop a script workflow runs on.

It is an asyncio loop without a clock, I/O or a thread: `run_ready` runs what is ready and returns, inside or outside a
running loop. The host sets the time, is told of timers and fires them, and gets the steps called through
`asyncio.to_thread`. Everything else that would reach the outside is refused (`_refused`).

It does not know journals, keys, steps or events: those belong to the host.

Invariants:

- Ready callbacks run in the order they were scheduled, each in its own context. Tasks, futures and timers are numbered
  in the order they were created, and every order asyncio derives from a set follows from these numbers (`_tasks`).
- `now` never moves by itself, and a timer that is already due is never told to the host.
- Unfinished tasks and begun async generators are held strongly until `unwind` has ended them (`_closing`). An async
  generator that is dropped half-way is therefore closed with the program, not when the collector finds it.
- Nothing is printed, logged or raised from a finaliser.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterable, Sequence
from types import AsyncGeneratorType
from typing import Any, Final, Protocol, TypeVar, TypeVarTuple, cast

from holdfast.authoring.script import _close, _tasks
from holdfast.authoring.script._close import graveyard_size
from holdfast.authoring.script._refused import Refusals
from holdfast.authoring.script._running_loop import Enterable
from holdfast.authoring.script._stdlib import GATHERING_INIT, caller_frame, get_running_loop
from holdfast.authoring.script._tasks import DurableFuture, DurableTask, ReadyHandle, Timer, source_of
from holdfast.authoring.script.functions import function_behind, unwrapped
from holdfast.errors import InvalidDuration, NeverWaits, NotAllowedHere, NotInRun

__all__ = ["DurableFuture", "DurableLoop", "DurableTask", "Host", "Timer", "graveyard_size", "source_of"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
ExceptionHandler = Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object]

BUDGET: Final = 100_000
_PRUNE_FROM: Final = 16


class Host(Protocol):
    """What the loop asks of the program that drives it. Not called while the loop unwinds or after it closed."""

    def timer_set(self, timer: Timer, /) -> None:
        """A timer was made and is due later than now. The host calls `loop.fire(timer)` when its time has come."""
        ...

    def timer_cancelled(self, timer: Timer, /) -> None:
        """A timer the host was told of was cancelled before it fired."""
        ...

    def call_step(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], /
    ) -> Awaitable[Any] | None:
        """`asyncio.to_thread(function, …)` or `run_in_executor`: the call to await, or None if it is not a step."""
        ...


class DurableLoop(Enterable):
    """The loop of one program. The module lists its invariants."""

    def __init__(self, host: Host, *, budget: int = BUDGET) -> None:
        self.now: float = 0.0
        self.callback_errors: Sequence[BaseException] = ()
        self.unwinding: bool = False
        self._host = host
        self._budget = self._budget_left = budget
        # Handles; Any because the loop reads asyncio's private slots of them, as every event loop does.
        self._ready: deque[Any] = deque()
        self._closed = False
        self._debug = False
        self._exception_handler: ExceptionHandler | None = None
        self._tasks_made = self._futures_made = self._timers_made = 0
        self._tasks: list[DurableTask[Any]] = []
        self._prune_tasks_at = _PRUNE_FROM
        self._generators: list[AsyncGeneratorType[Any, Any]] | None = None
        self._prune_generators_at = _PRUNE_FROM

    def __repr__(self) -> str:
        state = "closed" if self._closed else "unwinding" if self.unwinding else "open"
        return f"<DurableLoop {state} now={self.now} ready={len(self._ready)} tasks={len(self.unfinished_tasks())}>"

    # ----------------------------------------------------------------------------------------------- driven by the host

    def begin_turn(self, now: float) -> None:
        """Begins an activation at that time, with a new budget of callbacks."""
        self.now = now
        self._budget_left = self._budget

    def run_ready(self) -> None:
        """Runs callbacks until none is ready. Raises `NeverWaits` when the activation's budget is used up."""
        ready, left = self._ready, self._budget_left
        popleft = ready.popleft
        handle: Any = None
        while ready and left > 0:
            left -= 1
            handle = popleft()
            if handle._cancelled:
                continue
            try:
                handle._context.run(handle._callback, *handle._args)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001  a callback's error is the run's, SystemExit included
                if self._exception_handler is None or self.unwinding or isinstance(error, SystemExit):
                    self._broke(error)
                else:
                    message = f"Exception in callback {handle._callback!r:.200}"
                    self.call_exception_handler({"message": message, "exception": error, "handle": handle})
        handle = None  # an error keeps the frames below it: this one would keep the task, and that the error
        self._budget_left = left
        if ready and not self.unwinding:
            raise NeverWaits(self._never_waits())

    @property
    def idle(self) -> bool:
        """Whether nothing is ready to run."""
        return not self._ready

    def fire(self, timer: Timer) -> None:
        """Schedules the callback of a timer whose time has come. Does nothing if it fired or was cancelled before."""
        if not timer.fired and not timer.cancelled():
            timer.fired = True
            self._ready.append(timer)

    def outcome_future(self) -> asyncio.Future[Any]:
        """A future for the host's own use, the fastest to await. It takes no number, so whether the host makes one
        (live) or not (replaying a known outcome) changes no order. Never give it to the author."""
        return asyncio.Future(loop=self)

    def unfinished_tasks(self) -> list[DurableTask[Any]]:
        """The unfinished tasks in the order of creation."""
        return [task for task in self._tasks if not task.done()]

    def unwind(
        self, pending: Callable[[], Iterable[asyncio.Future[Any]]], make_exc: Callable[[], BaseException]
    ) -> bool:
        """Ends the program without doing anything more, then closes the loop.

        Every future of `pending`, then whatever a task waits for, fails with `make_exc()`, alternating with
        cancellation, until all tasks and async generators have ended. Meanwhile the host answers durable verbs with a
        fresh `outcome_future()` that it leaves alone, or raises: a future is better, since code that retries forever
        then still comes back to the loop. Returns False if the program refused 1,000 times; it is then kept forever.
        """
        if self._closed:
            return True
        if not self._generators and not self.unfinished_tasks():  # mostly: it has come to its end
            self._closed = True
            self._let_go()
            return True
        self.unwinding = True
        ended = False
        allowed = self._budget + 20 * len(self._tasks)

        def run_a_round() -> None:
            nonlocal allowed
            self._budget_left = limit = min(allowed, 1_000 + 10 * len(self._tasks))
            self.run_ready()
            allowed -= limit - self._budget_left

        try:
            with self:
                holders = [*(task.get_coro() for task in self.unfinished_tasks()), *(self._generators or ())]
                stray = _close.unstarted_coroutines(holders)
                for future in pending():
                    _close.fail(future, make_exc)
                ended = _close.end_tasks(self.unfinished_tasks, run_a_round, make_exc)
                ended = ended and self._end_generators(run_a_round, make_exc)
                for coroutine in stray:
                    coroutine.close()
        finally:
            self.unwinding = False
            self._closed = True
            if ended:
                self._let_go()
            else:
                self._ready.clear()
                _close.bury(self)
        return ended

    def _let_go(self) -> None:
        """Releases its host and all that ran, so that neither of them waits for the collector."""
        self._ready.clear()
        self._tasks.clear()
        self._generators = None
        del self._host

    def _end_generators(self, run_a_round: Callable[[], None], make_exc: Callable[[], BaseException]) -> bool:
        for _ in range(_close.ROUNDS):
            begun = _close.open_generators(self._generators or ())
            if not begun:
                return True
            for generator in begun:
                _ = self.create_task(_aclose(generator))
            run_a_round()
            if not _close.end_tasks(self.unfinished_tasks, run_a_round, make_exc):
                return False
        return not _close.open_generators(self._generators or ())

    def _never_waits(self) -> str:
        task = next((task for task in map(_tasks.task_of, self._ready) if task is not None), None)
        where = ""
        if task is not None:
            where = f" (task {task.get_name()!r} at {source_of(task) or task.get_coro()!r})"
        return (
            f"the workflow ran {self._budget:,} callbacks without waiting for anything durable{where}: await a step, a "
            "signal or a sleep longer than zero in that loop"
        )

    # --------------------------------------------------------------------------------------------- asyncio: scheduling

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """As asyncio's. Futures use it to wake their waiters, also on a closed loop, which wakes none."""
        handle = ReadyHandle(callback, args, self, contextvars.copy_context() if context is None else context)
        if self._closed:
            if not _wakes_waiter(args):
                raise self._is_closed_error("call_soon")
        elif self.is_entered or not isinstance(get_running_loop(), Refusals):
            self._ready.append(handle)
        else:
            raise NotAllowedHere(
                "a future, lock, event or queue that another run waits for was set here: what one run does to another "
                "is missing when that one is replayed. Make it inside the workflow, and send the other run a Signal"
            )
        return handle

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> Timer:
        """As asyncio's, from the loop's own `now`."""
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> Timer:
        """As asyncio's. A timer that is already due runs as if by `call_soon`, and the host never hears of it."""
        if self._closed:
            raise self._is_closed_error("call_at")
        if math.isnan(when):
            raise InvalidDuration("a timer needs a time, not NaN: check what the delay was computed from")
        self._timers_made += 1
        timer = Timer(self._timers_made, when, callback, args, self, context=context)
        if when <= self.now:
            self.fire(timer)
        elif not self.unwinding:
            self._host.timer_set(timer)
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        if isinstance(handle, Timer) and not handle.fired and not self.unwinding and not self._closed:
            self._host.timer_cancelled(handle)

    def time(self) -> float:
        """The time the host set last; it does not move by itself."""
        return self.now

    def create_future(self) -> DurableFuture[Any]:
        caller = caller_frame(1)
        _tasks.refuse_unordered_wait(caller)
        _tasks.refuse_foreign(caller)
        return DurableFuture(self._next_future(), self)

    def _next_future(self) -> int:
        self._futures_made += 1
        return self._futures_made

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
        **options: Any,
    ) -> DurableTask[T]:
        """A numbered task, held until it is done. `coro` may be any `collections.abc.Coroutine`."""
        if self._closed:
            _tasks.close_unstarted(coro)
            raise self._is_closed_error("create_task")
        _tasks.refuse_unordered_completion(coro, caller_frame(1))
        self._tasks_made = number = self._tasks_made + 1
        task: DurableTask[T] = DurableTask(
            number, coro, self, name=f"Task-{number}" if name is None else name, context=context, **options
        )
        if len(self._tasks) >= self._prune_tasks_at:
            self._tasks = self.unfinished_tasks()
            self._prune_tasks_at = max(_PRUNE_FROM, 2 * len(self._tasks))
        self._tasks.append(task)
        return task

    def run_in_executor(self, executor: object, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Hands a step to the host; refuses everything else. `asyncio.to_thread` awaits what comes back."""
        function, arguments, keywords, to_thread = unwrapped(func, args)
        call = None if executor is not None else self._host.call_step(function, arguments, keywords)
        if call is None:
            name = getattr(function_behind(function), "__qualname__", type(function).__qualname__)
            raise NotAllowedHere(
                f"loop.run_in_executor() (asyncio.to_thread) of {name} in a workflow: a thread would run it again on "
                "every replay; wrap it in a step"
                if executor is None
                else f"loop.run_in_executor() of {name} with an executor of your own in a workflow: a step brings its "
                "executor itself; wrap it in a step and pass None"
            )
        if not to_thread:
            call = asyncio.ensure_future(call, loop=self)
        return cast("asyncio.Future[T]", call)

    # ---------------------------------------------------------------------------------------------- asyncio: the state

    def is_running(self) -> bool:
        """Whether the loop has been entered."""
        return self.is_entered

    def is_closed(self) -> bool:
        """Whether the program has been unwound."""
        return self._closed

    def get_debug(self) -> bool:
        """As asyncio's. Every future asks while it is being made, which is how those of `gather` get a number."""
        caller = caller_frame(1)
        if caller.f_code is GATHERING_INIT:
            _tasks.number_gathering(caller, self._next_future)
        return self._debug

    def set_debug(self, enabled: bool) -> None:
        """As asyncio's: futures and timers then remember where they were made."""
        self._debug = enabled

    def get_task_factory(self) -> None:
        """None: the loop makes its own tasks."""

    def get_exception_handler(self) -> ExceptionHandler | None:
        """What `set_exception_handler` was given."""
        return self._exception_handler

    def set_exception_handler(self, handler: ExceptionHandler | None) -> None:
        """As asyncio's, except that the handler is not told of errors that finalisers report: see there."""
        self._exception_handler = handler

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Keeps the error for the host. A context without an error becomes one."""
        error = context.get("exception")
        self._broke(error if isinstance(error, BaseException) else RuntimeError(context["message"]))

    def _broke(self, error: BaseException) -> None:
        self.callback_errors = (*self.callback_errors, error)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Reports an error that is not awaited.

        Futures and tasks report from their finalisers ("never retrieved", "destroyed but pending"), at whatever moment
        the collector chooses. That moment does not replay, so these are dropped.
        """
        if self._closed or "future" in context or ("task" in context and "exception" not in context):
            return
        handler = self._exception_handler
        if handler is None:
            self.default_exception_handler(context)
            return
        try:
            handler(self, context)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  the handler is the author's code: its error is the run's
            self._broke(error)

    def generator_begun(self, generator: AsyncGenerator[Any, Any]) -> None:
        """See `Enterable`: it is held from here on."""
        if self._generators is None:
            self._generators = []
        elif len(self._generators) >= self._prune_generators_at:
            self._generators = _close.open_generators(self._generators)
            self._prune_generators_at = max(_PRUNE_FROM, 2 * len(self._generators))
        self._generators.append(cast("AsyncGeneratorType[Any, Any]", generator))

    def _is_closed_error(self, method: str) -> NotInRun:
        return NotInRun(f"loop.{method}() after the run's program was closed: this loop no longer runs anything")


async def _aclose(generator: AsyncGenerator[Any, Any]) -> None:
    await generator.aclose()


def _wakes_waiter(args: tuple[Any, ...]) -> bool:
    """Whether a callback is one that a finished future schedules for its waiters."""
    return len(args) == 1 and asyncio.isfuture(args[0]) and args[0].done()
