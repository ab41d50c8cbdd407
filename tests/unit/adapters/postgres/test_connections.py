"""Dialling: how long a new connection is waited for, and who else waits meanwhile."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from holdfast.adapters.postgres.address import Address, parse_address
from holdfast.adapters.postgres.connections import Dialler
from holdfast.adapters.postgres.link import PATIENCE, Link
from holdfast.adapters.postgres.statements import NOTHING, Texts
from holdfast.errors import StoreUnavailable
from tests.support.postgres import server_port, server_url
from tests.support.proxy import Proxy


class Hush:
    """The first time that a client says a word, it hears nothing more."""

    def __init__(self, word: bytes) -> None:
        self.has_begun = threading.Event()
        self._word = word

    def __call__(self, data: bytes) -> bool:
        if self._word not in data or self.has_begun.is_set():
            return False
        self.has_begun.set()
        return True


async def test_a_connection_that_says_nothing_keeps_nobody_else_waiting() -> None:
    """Contract: a client is let in and then hears nothing. It gives up when its patience ends, and whoever waits behind
    it, a heart that must beat, has time left and is served."""
    hush = Hush(b"pg_is_in_recovery")
    with Proxy(server_port(), hangs=hush) as proxy:
        dialler = Dialler(parse_address(server_url(port=proxy.port)))
        stuck = asyncio.ensure_future(asyncio.to_thread(dialler.dial, 1.0))
        assert await asyncio.to_thread(hush.has_begun.wait, 30)
        (await asyncio.to_thread(dialler.dial, PATIENCE)).close()
        with pytest.raises(StoreUnavailable):
            await stuck


async def test_a_session_that_cannot_be_prepared_is_given_up_in_time() -> None:
    """Contract: if it falls silent a moment later, there is time for another try before the asker's patience ends."""
    hush = Hush(b"lock_timeout")
    with Proxy(server_port(), hangs=hush) as proxy:
        address = parse_address(server_url(port=proxy.port))
        link = Link(Dialler(address), Texts(address.quoted), writes_plainly=True)
        assert await asyncio.to_thread(link.ask, NOTHING) == [()]
        assert hush.has_begun.is_set()
        link.drop()


async def test_a_silent_server_among_several_is_waited_for_once() -> None:
    """Contract: the first of two takes connections and never answers. All who come together are served by the other
    one, and from then on nobody asks the first."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        dialler = Dialler(both(silent.getsockname()[1], server_port()))
        dialled = await asyncio.gather(*(asyncio.to_thread(dialler.dial, PATIENCE) for _ in range(4)))
        assert {connection.info.port for connection in dialled} == {server_port()}
        silent.settimeout(0)
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):
            silent.accept()
    for connection in dialled:
        connection.close()


async def test_a_server_that_falls_silent_is_left_for_another() -> None:
    """Contract: the same when it had served before: whoever has little patience is told so, and the next is served."""
    is_silent = threading.Event()
    with Proxy(server_port(), hangs=lambda _: is_silent.is_set()) as proxy:
        dialler = Dialler(both(proxy.port, server_port()))
        dialler.dial(PATIENCE).close()
        is_silent.set()
        with pytest.raises(StoreUnavailable):
            await asyncio.to_thread(dialler.dial, 1.0)
        served = await asyncio.to_thread(dialler.dial, 1.0)
        assert served.info.port == server_port()
        served.close()


def both(first: int, second: int) -> Address:
    return parse_address(f"postgresql://postgres@127.0.0.1:{first},127.0.0.1:{second}/postgres")
