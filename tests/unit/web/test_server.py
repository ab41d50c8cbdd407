"""The server's own socket."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from holdfast import App
from holdfast.web.server import served
from holdfast.web.tokens import TokenFile

pytestmark = pytest.mark.anyio


async def test_answers_are_sent_without_delay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: Nagle's algorithm is off for every connection; with it an answer in two parts takes 40 ms."""
    accepted: list[socket.socket] = []
    accept = socket.socket.accept

    def noted(self: socket.socket) -> tuple[socket.socket, object]:
        connection, address = accept(self)
        accepted.append(connection)
        return connection, address

    monkeypatch.setattr(socket.socket, "accept", noted)
    async with App("memory://") as app, served(app, "127.0.0.1", 0, TokenFile(tmp_path / "tokens.json")) as serving:
        reader, writer = await asyncio.open_connection("127.0.0.1", serving.port)
        writer.write(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert b" 200 " in await reader.readline()
        (connection,) = accepted
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        writer.close()
