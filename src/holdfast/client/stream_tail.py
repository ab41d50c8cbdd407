"""The tail of one stream, for all its readers on one event loop: readers at the same place share one page."""

from __future__ import annotations

import asyncio

from holdfast.client.stream_page import SharedPage
from holdfast.ports.parts import Streams

BACKSTOP = 30.0
"""Seconds after which a reader looks again without news: its run may have been removed."""


class StreamTail:
    """`version` grows when there may be more to read, or when the state of an attempt may have changed."""

    def __init__(self, store: Streams, run: str, name: str) -> None:
        self._store = store
        self.run = run
        self.name = name
        self.readers: int = 0
        self.version: int = 0
        self.end: int = 0
        self._pages: dict[tuple[int, int], asyncio.Future[SharedPage | None]] = {}
        self._news = asyncio.Event()

    async def page(self, after: int, limit: int) -> SharedPage | None:
        """See `ports.parts`. Queried once for all readers that wait for it."""
        place = (after, limit)
        page = self._pages.get(place)
        if page is None:
            page = self._pages[place] = asyncio.ensure_future(self._ask(after, limit))
            page.add_done_callback(lambda done: self._asked(place, done))
        return await asyncio.shield(page)

    async def _ask(self, after: int, limit: int) -> SharedPage | None:
        page = await self._store.read_parts(self.run, self.name, after=after, limit=limit)
        return None if page is None else SharedPage(self.run, self.name, page)

    def _asked(self, place: tuple[int, int], done: asyncio.Future[SharedPage | None]) -> None:
        if (done.cancelled() or done.exception() is not None) and self._pages.get(place) is done:
            del self._pages[place]

    def tell(self) -> None:
        self.version += 1
        self._pages.clear()
        self._news.set()
        self._news = asyncio.Event()

    async def wait(self, version: int) -> None:
        """Waits for news since that version, or until it should look again."""
        if self.version != version:
            return
        try:
            async with asyncio.timeout(BACKSTOP):
                await self._news.wait()
        except TimeoutError:
            if self.version == version:
                self.tell()
