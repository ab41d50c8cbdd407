"""A TCP proxy between a client and a server, on a thread of its own, that misbehaves when it is told to."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self


def never(_: bytes) -> bool:
    """The usual."""
    return False


def at_once(_: bytes) -> float:
    """The usual."""
    return 0.0


class Proxy:
    """Passes bytes on, and looks at what the client sends.

    `cuts`: it is passed on, and the connection is cut when the server has answered: the client never hears what became
    of it. `drops`: the same, but the client's side is cut at once, while the server is still at it. `hangs`: it is
    swallowed, and nothing comes back on that connection. `slows`: it is passed on so many seconds later.
    """

    def __init__(
        self,
        port: int,
        cuts: Callable[[bytes], bool] = never,
        hangs: Callable[[bytes], bool] = never,
        drops: Callable[[bytes], bool] = never,
        slows: Callable[[bytes], float] = at_once,
    ) -> None:
        self.port = 0
        self.cut = 0
        self.slowed = 0
        self._target = port
        self._cuts = cuts
        self._hangs = hangs
        self._drops = drops
        self._slows = slows
        self._ends: list[asyncio.StreamWriter] = []
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

    async def _serve(self) -> None:
        self._is_over = asyncio.Event()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._is_ready.set()
        await self._is_over.wait()
        server.close()
        for end in self._ends:
            end.transport.abort()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        await asyncio.gather(*others, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:  # the server is away
            writer.transport.abort()
            return
        self._ends += (writer, back)
        answered = asyncio.Event()
        is_cut = False

        async def answers() -> None:
            with suppress(OSError):
                while data := await there.read(65536):
                    answered.set()
                    if not is_cut:
                        writer.write(data)
            answered.set()
            writer.transport.abort()

        task = asyncio.ensure_future(answers())
        with suppress(OSError):
            while data := await reader.read(65536):
                if pause := self._slows(data):
                    self.slowed += 1
                    await asyncio.sleep(pause)
                if self._hangs(data):
                    await reader.read()
                    break
                is_dropped = self._drops(data)
                if is_dropped or self._cuts(data):
                    is_cut = True
                    self.cut += 1
                    answered.clear()
                    back.write(data)
                    if is_dropped:
                        writer.transport.abort()
                    await answered.wait()
                    break
                back.write(data)
        for end in (writer, back):
            end.transport.abort()
        await task
