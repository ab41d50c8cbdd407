"""A TCP proxy between a client and a server, on a thread of its own, that misbehaves when it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from tests.support.between import Between

WRITES = (
    *(b"commit_plain", b"commit_one", b"commit_many", b"create_plain", b"create_runs", b"send_messages"),
    *(b"claim(", b"release("),
)
"""How a question to PostgreSQL that writes is known, prepared or not."""


def never(_: bytes) -> bool:
    """The usual."""
    return False


def at_once(_: bytes) -> float:
    """The usual."""
    return 0.0


class Proxy(Between):
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
        super().__init__(port)
        self.cut = 0
        self.slowed = 0
        self._cuts = cuts
        self._hangs = hangs
        self._drops = drops
        self._slows = slows

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:  # the server is away
            writer.transport.abort()
            return
        self.ends += (writer, back)
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
