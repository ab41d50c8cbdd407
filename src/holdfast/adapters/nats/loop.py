"""A thread with an event loop for all traffic with NATS, so that a busy event loop in the worker cannot delay it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from holdfast.errors import StoreUnavailable

T = TypeVar("T")


class LoopThread:
    """Runs from its construction until `close`."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Runs the coroutine on the thread. Raises `StoreUnavailable` after `close`."""
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError as error:
            work.close()
            raise StoreUnavailable("the connection to NATS is closed") from error

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs the coroutine on the thread and awaits it on the caller's loop."""
        return await asyncio.wrap_future(self.submit(work))

    def close(self) -> None:
        """Cancels what is under way and ends the thread. Blocks until it has ended."""
        if self._loop.is_closed():
            return
        self.submit(_cancel_others()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
