"""Sync workflows: a plain function in its own thread, alternating with the program's loop.

The thread runs only while the loop waits for it, and vice versa, so a sync body is as deterministic as an async one. A
durable verb in the thread hands an awaitable to the loop's side, which awaits it as any async body would; that is why
sync and async workflows share all their logic.

A thread ends when its program is closed. One that does not end within `PATIENCE` is left behind and counted, as is one
that works longer than `TURN` without returning.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from holdfast.authoring.script.exits import Unwinding
from holdfast.errors import NeverWaits, NotAllowedHere

if TYPE_CHECKING:
    from holdfast.authoring.script.exchange import Exchange

R = TypeVar("R")

PATIENCE = 5.0
"""Seconds that a closing program waits for its thread to return from real work."""

FAREWELL = 0.1
"""Seconds a thread has for its last lines once its body has ended."""

TURN = 60.0
"""Seconds that a sync body may work between two waits before the program gives it up."""

_stuck: list[threading.Thread] = []


def stuck_threads() -> tuple[str, ...]:
    """Sync workflow bodies of this process whose program was closed and whose threads have not ended."""
    _stuck[:] = [thread for thread in _stuck if thread.is_alive()]
    return tuple(thread.name.removeprefix(_PREFIX) for thread in _stuck)


_PREFIX = "holdfast-"


class _Finished:
    """The outcome that the thread left."""

    __slots__ = ("error", "value")

    def __init__(self, value: Any, error: BaseException | None) -> None:
        self.value = value
        self.error = error


class SyncBody:
    """One sync body and its thread."""

    def __init__(
        self, program: Exchange, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self._program = program
        self._function = function
        self._args = args
        self._kwargs = kwargs
        self._to_thread = threading.Lock()
        self._to_loop = threading.Lock()
        self._to_thread.acquire()
        self._to_loop.acquire()
        self._request: Awaitable[Any] | _Finished | None = None
        self._reply: Any = None
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    async def main(self) -> Any:
        """The loop's side: awaits what the thread asks for, until the thread ends."""
        context = contextvars.copy_context()
        context.run(_bodies.set, self)
        context.run(sync_program.set, self._program)
        name = f"{_PREFIX}{self._program.spec.name}"
        self._thread = threading.Thread(target=context.run, args=(self._run,), name=name, daemon=True)
        self._thread.start()
        request = await self._thread_turn()
        while not isinstance(request, _Finished):
            try:
                self._reply, self._error = await request, None
            except BaseException as error:  # noqa: BLE001 whatever it is, it belongs to the thread's side
                self._reply, self._error = None, error
            self._to_thread.release()
            request = await self._thread_turn()
        if request.error is not None:
            raise request.error
        return request.value

    @property
    def is_alive(self) -> bool:
        """Whether its thread may be running, or is about to be made."""
        return self._thread is None or self._thread.is_alive()

    def is_left_behind(self) -> bool:
        """Whether the thread still runs although the program was closed. If so, it is counted."""
        thread = self._thread
        if thread is None:
            return False
        thread.join(FAREWELL)
        if thread.is_alive() and thread not in _stuck:
            _stuck.append(thread)
        return thread.is_alive()

    async def _thread_turn(self) -> Awaitable[Any] | _Finished:
        """Waits until the thread asks for something or ends."""
        program = self._program
        is_closing = program.loop.unwinding
        if not self._to_loop.acquire(timeout=PATIENCE if is_closing else TURN):
            if not is_closing:
                program.stop(
                    NeverWaits(
                        f"the sync workflow {program.spec.name} worked for {TURN:g} s without waiting for anything "
                        "durable, while its worker stood still: move the work into a step"
                    )
                )
                await program.loop.outcome_future()  # never comes: the program has stopped
            raise Unwinding
        return cast("Awaitable[Any] | _Finished", self._request)

    def _run(self) -> None:
        try:
            self._request = _Finished(self._function(*self._args, **self._kwargs), None)
        except BaseException as error:  # noqa: BLE001 it is the workflow's end, whatever it is
            self._request = _Finished(None, error)
        self._to_loop.release()

    def wait(self, awaitable: Awaitable[R]) -> R:
        """The thread's side: hands the awaitable over, and sleeps until the answer is there."""
        self._request = awaitable
        self._to_loop.release()
        self._to_thread.acquire()
        error, self._error = self._error, None
        if error is not None:
            raise error
        return cast("R", self._reply)


sync_program: contextvars.ContextVar[Exchange | None] = contextvars.ContextVar("holdfast_sync_program", default=None)
"""The program of the sync body that runs in this thread."""

_bodies: contextvars.ContextVar[SyncBody | None] = contextvars.ContextVar("holdfast_sync_body", default=None)


def block_on(awaitable: Awaitable[R], verb: str) -> R:
    """Waits, in a sync workflow, for something durable."""
    body = _bodies.get()
    if body is None:
        raise NotAllowedHere(f"{verb} of holdfast.sync is for `def` workflows; in an async one use holdfast's, awaited")
    return body.wait(awaitable)
