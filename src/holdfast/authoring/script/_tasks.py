"""Tasks, futures and timers that have the same order in every process.

asyncio keeps tasks in sets (`TaskGroup`, `wait`, `as_completed`) and so cancels, awaits and returns them in the order
of their addresses. Here a task or future hashes by the number it was created under, so the order of a set follows
from the program alone. Equality stays identity.

The order of a set depends on the numbers themselves, not only on their order, so each kind has its own counter, and
only the program's own actions may take a number. What cannot be numbered is refused where its order would matter. Knows
asyncio; does not know the loop's host, journals or steps.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable
from contextvars import Context
from types import CoroutineType, FrameType, GeneratorType
from typing import Any, Final, Literal, TypeVar, cast

from holdfast.authoring.script import _stdlib
from holdfast.authoring.script._refused import Refusals
from holdfast.errors import NotAllowedHere

T = TypeVar("T")
TimerKind = Literal["sleep", "timer"]
PLAIN_COROUTINES: Final = (CoroutineType, GeneratorType)


class DurableFuture(asyncio.Future[T]):
    """A future of a durable loop. The number is set first: asyncio may hash it while it is being made."""

    __slots__ = ("number",)

    def __init__(self, number: int, loop: asyncio.AbstractEventLoop) -> None:
        self.number: int = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.number


class DurableTask(asyncio.Task[T]):
    """A task of a durable loop. It is named by its number: asyncio's own names count per process.

    It leaves asyncio's register of all tasks at once. The register is shared by every loop of the process, where tasks
    of many programs with the same number would collide, and the worker's `all_tasks()` is not to see them.
    """

    __slots__ = ("number",)

    def __init__(self, number: int, coro: Any, loop: asyncio.AbstractEventLoop, **options: Any) -> None:
        self.number: int = number
        super().__init__(coro, loop=loop, **options)
        _stdlib.unregister_task(self)

    def __hash__(self) -> int:
        return self.number


class ReadyHandle(asyncio.Handle):
    """A callback in the ready queue: an `asyncio.Handle` that costs half as much to make."""

    __slots__ = ()

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], loop: asyncio.AbstractEventLoop, context: Context
    ) -> None:
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = context
        self._cancelled = False
        self._source_traceback = None
        self._repr = None


class Timer(asyncio.TimerHandle):
    """A callback due at an instant of the loop's time. The host says when that instant has come."""

    __slots__ = ("fired", "kind", "number")

    def __init__(
        self,
        number: int,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        *,
        context: Context | None,
    ) -> None:
        self.number: int = number
        self.kind: TimerKind = "sleep" if callback is _stdlib.wakes_sleeper else "timer"
        self.fired: bool = False
        super().__init__(when, callback, args, loop, context)

    @property
    def when_at(self) -> float:
        """When it is due, in seconds of `loop.time()`; may be infinite."""
        return self.when()

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other


# ----------------------------------------------------------------------------------------- futures asyncio makes itself


def _by_number(future: Any) -> int:
    number: int = future.number
    return number


_NumberedGathering = cast(
    "type[asyncio.Future[Any]]",
    type("_NumberedGathering", (_stdlib.GatheringFuture,), {"__slots__": (), "__hash__": _by_number}),
)


def number_gathering(caller: FrameType, number: Callable[[], int]) -> None:
    """Numbers the future that `gather` is making, if `gather` is the caller. asyncio builds it without asking the loop,
    but its constructor calls `loop.get_debug()`; `caller` is that frame."""
    if caller.f_code is _stdlib.GATHERING_INIT:
        future: Any = caller.f_locals["self"]
        future.__class__ = _NumberedGathering
        future.number = number()


# ------------------------------------------------------------------------------------------ orders that cannot be known


def _hashes_by_address(value: object) -> bool:
    return type(value).__hash__ is object.__hash__


def refuse_unordered_wait(caller: FrameType) -> None:
    """Refuses `asyncio.wait` over futures the loop did not make: the sets it returns would differ on replay."""
    if caller.f_code is _stdlib.WAIT:
        futures: Iterable[object] = caller.f_locals["fs"]
        for future in futures:
            if _hashes_by_address(future):
                raise NotAllowedHere(
                    f"asyncio.wait() was given a {type(future).__name__} that this workflow's loop did not make, so "
                    "the order of its results would differ on replay: use loop.create_future() or asyncio.create_task()"
                )


def refuse_foreign(caller: FrameType) -> None:
    """Refuses `asyncio.wrap_future`: the future of another thread. Its outcome would be missing on replay."""
    if caller.f_code is _stdlib.WRAP_FUTURE:
        raise NotAllowedHere(
            "asyncio.wrap_future() in a workflow: what another thread brings would be missing on replay; wrap the call "
            "in a step"
        )


def refuse_unordered_completion(coro: object, caller: FrameType | None) -> None:
    """Refuses `asyncio.as_completed` over bare coroutines: it would start them in the order of their addresses."""
    if caller is None or caller.f_code not in _stdlib.ENSURE_FUTURE:
        return
    while caller is not None and caller.f_code in _stdlib.ENSURE_FUTURE:
        caller = caller.f_back
    if (
        caller is None
        or caller.f_globals.get("__name__") != "asyncio.tasks"
        or not caller.f_code.co_qualname.startswith(("as_completed", "_AsCompletedIterator"))
    ):
        return
    if _hashes_by_address(coro):
        close_unstarted(coro)
        raise NotAllowedHere(
            "asyncio.as_completed() starts bare coroutines in an order that differs on replay: wrap them in "
            "create_task() first, as in as_completed([asyncio.create_task(c) for c in coroutines])"
        )


class _AllTasksGuard:
    """A task of no loop in asyncio's register, which every caller of `all_tasks()` meets. Inside a workflow it refuses;
    other loops see a task that is not theirs."""

    def get_loop(self) -> object:
        if isinstance(_stdlib.get_running_loop(), Refusals):
            raise NotAllowedHere(
                "asyncio.all_tasks() has no order that replays: keep the tasks you create in a list or a TaskGroup"
            )
        return None

    def done(self) -> bool:
        return False

    def cancel(self, msg: object = None) -> bool:
        return False


_GUARD = _AllTasksGuard()
_stdlib.register_task(_GUARD)


# -------------------------------------------------------------------------------------------------- where a task stands


def close_unstarted(coro: object) -> None:
    """Closes a coroutine that will not be run, so that Python does not warn about it."""
    if isinstance(coro, PLAIN_COROUTINES):
        cast("CoroutineType[Any, Any, Any]", coro).close()


def frames_of(coro: object) -> Iterable[FrameType]:
    """The visible frames of a suspended coroutine or async generator, outermost first."""
    awaited: Any = coro
    for _ in range(sys.getrecursionlimit()):
        for frame, inner in (("cr_frame", "cr_await"), ("gi_frame", "gi_yieldfrom"), ("ag_frame", "ag_await")):
            here: FrameType | None = getattr(awaited, frame, None)
            if here is not None:
                yield here
                awaited = getattr(awaited, inner, None)
                break
        else:
            return


def source_of(task: asyncio.Task[Any]) -> str | None:
    """`file:line` of the innermost line of the author's code that the task is at, if known."""
    source: str | None = None
    for frame in frames_of(task.get_coro()):
        if not frame.f_code.co_filename.startswith(_stdlib.ASYNCIO_FILES):
            source = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    return source


def task_of(handle: Any) -> asyncio.Task[Any] | None:
    """The task that a queued callback steps or wakes, if any."""
    owner: Any = getattr(handle._callback, "__self__", None)
    return owner if _is_task(owner) else None


def _is_task(value: object) -> bool:
    return isinstance(value, asyncio.Task)
