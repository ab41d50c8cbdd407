"""A lane: one thread with one connection, which performs everything requested while it was busy as one batch. No timer.

::

    await ask(work) ──▶ queue ──▶ thread: perform([work, …]) ── one round trip ──▶ answers, one wake-up per event loop

A request is carried out even if its caller gives up; callers are answered only after the server has answered.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from holdfast.errors import StoreUnavailable

W = TypeVar("W")

_MOST_AT_ONCE = 500


class _Request(Generic[W]):
    __slots__ = ("answer", "future", "work")

    def __init__(self, work: W, future: asyncio.Future[Any]) -> None:
        self.work = work
        self.future = future
        self.answer: Any = None


class Lane(Generic[W]):
    """A queue of work for one thread. Usable from any number of threads and event loops. `perform` returns an answer or
    an error for each piece of work."""

    def __init__(
        self,
        name: str,
        perform: Callable[[Sequence[W]], Sequence[Any]],
        end: Callable[[], None],
        begin: Callable[[], None] | None = None,
    ) -> None:
        self._perform = perform
        self._begin = begin
        self._end = end
        self._gate = threading.Lock()  # nothing enters the queue after its end
        self._queue: SimpleQueue[_Request[W] | None] = SimpleQueue()
        self._is_closed = False
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    async def ask(self, work: W) -> Any:
        """Returns the answer to the work, once it is durable."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.put(work, future)
        return await future

    def put(self, work: W, answer: asyncio.Future[Any]) -> None:
        """Like `ask`, for a caller that already has a future."""
        with self._gate:
            if not self._is_closed:
                self._queue.put(_Request(work, answer))
            elif not answer.done():
                answer.set_exception(closed())

    def close(self) -> None:
        """Finishes what was accepted. Blocks."""
        with self._gate:
            was_closed, self._is_closed = self._is_closed, True
        if not was_closed:
            self._queue.put(None)
            self._thread.join()

    def _serve(self) -> None:
        if self._begin is not None:
            with suppress(Exception):  # the next caller meets it again; a lane survives it
                self._begin()
        is_last = False
        while not is_last:
            requests, is_last = self._gathered()
            if requests:
                try:
                    answers = self._perform([request.work for request in requests])
                except Exception as error:  # noqa: BLE001 - raised for the waiter
                    answers = [error] * len(requests)
                for request, answer in zip(requests, answers, strict=True):
                    request.answer = answer
                _tell(requests)
        self._end()

    def _gathered(self) -> tuple[list[_Request[W]], bool]:
        """Waits for work. Returns all that is queued, and whether it is the last."""
        requests: list[_Request[W]] = []
        request = self._queue.get()
        with suppress(Empty):
            while request is not None:
                requests.append(request)
                if len(requests) == _MOST_AT_ONCE:
                    return requests, False
                request = self._queue.get_nowait()
            return requests, True
        return requests, False


def _tell(requests: list[_Request[Any]]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[_Request[Any]]] = {}
    for request in requests:
        by_loop.setdefault(request.future.get_loop(), []).append(request)
    for loop, answered in by_loop.items():
        with suppress(RuntimeError):  # the loop was closed meanwhile: no waiter is left
            loop.call_soon_threadsafe(_answer_all, answered)


def _answer_all(requests: list[_Request[Any]]) -> None:
    for request in requests:
        if request.future.done():  # cancelled meanwhile; what was written stays written
            continue
        if isinstance(request.answer, BaseException):
            request.future.set_exception(request.answer)
        else:
            request.future.set_result(request.answer)


def closed() -> StoreUnavailable:
    """The error for callers that come after `close`."""
    return StoreUnavailable("this store was closed. Open it again to continue.")
