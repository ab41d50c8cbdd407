"""A stream of orphans: written by a thread of the manager, read on a worker's event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from holdfast.errors import StoreUnavailable


class Orphans:
    """One stream. Made on the listener's loop; `tell` may be called from any thread.

    `begin` starts the watch when listening begins, `end` stops it when the listener leaves.
    """

    def __init__(self, name: str, begin: Callable[[], None], end: Callable[[], None]) -> None:
        self._name = name
        self._begin = begin
        self._end = end
        self._queue: asyncio.Queue[str | StoreUnavailable] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()

    async def runs(self) -> AsyncIterator[str]:
        """Yields orphans until the manager cannot be reached, then raises `StoreUnavailable`."""
        self._begin()
        try:
            while True:
                item = await self._queue.get()
                if isinstance(item, StoreUnavailable):
                    raise item
                yield item
        finally:
            self._end()

    def tell(self, *runs: str) -> None:
        """Adds runs that lost their grant."""
        for run in runs:
            self._put(run)

    def fail(self, error: Exception) -> None:
        """Ends the stream with an error: the watch broke."""
        if not isinstance(error, StoreUnavailable):
            error = StoreUnavailable(f"the watch of {self._name} broke: {error!r}")
        self._put(error)

    def _put(self, item: str | StoreUnavailable) -> None:
        try:
            self._loop.call_soon_threadsafe(self._queue.put_nowait, item)
        except RuntimeError:  # the loop is closed: nothing listens
            self._end()
