"""A transaction pooler between clients and a PostgreSQL server, on a thread of its own, as unkind as one may be.

A client is given a connection to the server for one transaction, and another one for the next: whatever it left in the
session of the first is not there. Notifications go nowhere, as nobody is there to hear them.
"""

from __future__ import annotations

import asyncio
import secrets
import struct
from collections import deque
from contextlib import suppress

from tests.support.between import Between

_PROTOCOL = 196608
_ENCRYPTIONS = (80877103, 80877104)
_LENGTH = struct.Struct("!I")


class _Backend:
    """One connection to the server, between two transactions or in one."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer


class Pooler(Between):
    """Listens on `port`, and is `user` at the server. `switches` counts transactions that followed one of the same
    client elsewhere."""

    def __init__(self, target: int, user: str = "postgres") -> None:
        super().__init__(target)
        self.switches = 0
        self._user = user.encode()
        self._idle: deque[_Backend] = deque()
        self._greeting = b""

    async def prepare(self) -> None:
        """There is always another one."""
        for _ in range(2):
            self._idle.append(await self._dialled())

    async def _dialled(self) -> _Backend:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.target)
        self.ends.append(writer)
        body = _LENGTH.pack(_PROTOCOL) + b"user\0" + self._user + b"\0database\0postgres\0\0"
        writer.write(_LENGTH.pack(len(body) + 4) + body)
        greeting = b""
        while True:
            kind, message = await _message(reader)
            greeting += message if kind != b"K" else message[:5] + secrets.token_bytes(len(message) - 5)
            if kind == b"Z":
                break
        self._greeting = greeting  # with a key of its own, as poolers have
        return _Backend(reader, writer)

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One transaction after the other, each elsewhere."""
        self.ends.append(writer)
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                (length,) = _LENGTH.unpack(await reader.readexactly(4))
                asked = await reader.readexactly(length - 4)
                if _LENGTH.unpack(asked[:4])[0] not in _ENCRYPTIONS:
                    break
                writer.write(b"N")
            writer.write(self._greeting)
            await self._transactions(reader, writer)
        writer.transport.abort()

    async def _transactions(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        last: _Backend | None = None
        backend: _Backend | None = None
        while True:
            kind, message = await _message(reader)
            if kind == b"X":
                break
            if backend is None:
                backend = self._idle.popleft() if self._idle else await self._dialled()
                if backend is last and self._idle:
                    self._idle.append(backend)
                    backend = self._idle.popleft()
                self.switches += last is not None and backend is not last
                last = backend
            backend.writer.write(message)
            if kind in b"SQ" and await self._answered(backend, writer):
                self._idle.append(backend)
                backend = None
        if backend is not None:  # gone in the middle of a transaction
            backend.writer.transport.abort()

    @staticmethod
    async def _answered(backend: _Backend, writer: asyncio.StreamWriter) -> bool:
        """Passes the answer on; whether the transaction is over."""
        while True:
            kind, message = await _message(backend.reader)
            if kind != b"A":
                writer.write(message)
            if kind == b"Z":
                return message[-1:] == b"I"


async def _message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readexactly(5)
    (length,) = _LENGTH.unpack(head[1:])
    return head[:1], head + await reader.readexactly(length - 4)
