"""What stands between a client and a server on this machine: it listens on a port, on a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Between(ABC):
    """Listens on `port` as long as it is entered; `target` is the server's."""

    def __init__(self, target: int) -> None:
        self.port = 0
        self.target = target
        self.ends: list[asyncio.StreamWriter] = []
        """What is cut off at the end."""
        self._loop = asyncio.new_event_loop()
        self._is_ready = threading.Event()
        self._is_over: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._is_ready.wait(30)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._is_over is not None
        self._loop.call_soon_threadsafe(self._is_over.set)
        self._thread.join()
        self._loop.close()

    async def prepare(self) -> None:
        """Before anybody may come: by default nothing."""
        return

    @abstractmethod
    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one client until it goes."""

    async def _serve(self) -> None:
        self._is_over = asyncio.Event()
        server = await asyncio.start_server(self.connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        await self.prepare()
        self._is_ready.set()
        await self._is_over.wait()
        server.close()
        for end in self.ends:
            end.transport.abort()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        await asyncio.gather(*others, return_exceptions=True)
