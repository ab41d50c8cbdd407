"""A standalone server: uvicorn on an address, and an orderly stop.

It accepts no new request, ends its streams with a hint to reconnect later, and then closes.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import uvicorn

from holdfast.app import App
from holdfast.errors import InvalidConfig, InvalidInput
from holdfast.web.access_gate import LOOPBACK, is_loopback
from holdfast.web.asgi import Server
from holdfast.web.routes import Route
from holdfast.web.table import ROUTES
from holdfast.web.tokens import JoinedTokens, Token, TokenFile, new_token

LOG = logging.getLogger("holdfast.http")
DRAIN = 5
"""Seconds that open requests may take when the server stops."""


FIGURES: tuple[Route, ...] = tuple(route for route in ROUTES if route.path == "/metrics")
"""What a worker serves besides health and readiness."""


def parse_address(text: str) -> tuple[str, int]:
    """`HOST:PORT`; a port alone means loopback."""
    host, colon, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise InvalidInput(f"{text!r}: an address is written HOST:PORT, such as 127.0.0.1:7070")
    return (host.strip("[]") if colon else "127.0.0.1") or "127.0.0.1", int(port)


def check_reach(host: str, tokens: TokenFile) -> None:
    """Refuses to listen beyond loopback unless a token exists."""
    if not is_loopback(host) and not list(tokens.tokens()):
        raise InvalidConfig(
            f"{host} can be reached from elsewhere, and there is no token: make one first with "
            f"`holdfast tokens add NAME --role read`, or listen on 127.0.0.1 (tokens are in {tokens.path})"
        )


class _Uvicorn(uvicorn.Server):
    """Leaves signal handling to its caller."""

    def install_signal_handlers(self) -> None:
        """Does nothing."""

    @property
    def port(self) -> int:
        return int(self.servers[0].sockets[0].getsockname()[1])


class Serving:
    """A running server. `url` is its address; `link` is an address that signs in the first person who opens it."""

    def __init__(self, server: Server, host: str, port: int) -> None:
        self.server = server
        self.host = host
        self.port = port

    @property
    def url(self) -> str:
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{shown}:{self.port}/"

    def link(self, token: Token | None = None, place: str = "") -> str:
        """An address that opens one session, within a minute; for a token, or for a new one. `place`: what of the page
        it opens. Only on loopback: it is not encrypted."""
        if not is_loopback(self.host):
            raise InvalidInput(f"a one-time link is for loopback, and this server listens on {self.host}")
        if token is None:
            token, _ = new_token("dev", "admin")
            self.server.own.add(token)
        return f"{self.url}{place}#code={self.server.service.gate.codes.new(token)}"


@asynccontextmanager
async def served(
    app: App,
    host: str,
    port: int,
    tokens: TokenFile,
    *,
    more_tokens: TokenFile | None = None,
    allowed_hosts: tuple[str, ...] = (),
    secret: str = "",
    is_whole: bool = True,
) -> AsyncGenerator[Serving]:
    """Serves an app on an address for the duration of the block: all of it, or health, readiness and figures."""
    check_reach(host, tokens)
    hosts = (*LOOPBACK, *allowed_hosts) if is_loopback(host) else (*allowed_hosts, host, f"{host}:{port}")
    known = tokens if more_tokens is None else JoinedTokens(tokens, more_tokens)
    routes = ROUTES if is_whole else FIGURES
    application = Server(app, tokens=known, allowed_hosts=hosts, secret=secret, routes=routes, has_page=is_whole)
    config = uvicorn.Config(
        application,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=DRAIN,
        h11_max_incomplete_event_size=64 * 1024,
    )
    listening = _listening(host, port)
    server = _Uvicorn(config)
    task = asyncio.create_task(server.serve([listening]), name="holdfast http")
    while not server.started and not task.done():  # noqa: ASYNC110 uvicorn has no event for it
        await asyncio.sleep(0.005)
    try:
        if not task.done():
            yield Serving(application, host, server.port)
        else:
            await task
    finally:
        application.service.stopping.set()
        server.should_exit = True
        await task


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol named: asyncio turns Nagle's algorithm off for such sockets only, and with it on the two parts
    # of an answer are 40 ms apart.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(1024)
        made.setblocking(False)
    except OSError as error:
        made.close()
        why, hint = error.strerror or str(error), ""
        if error.errno == errno.EADDRINUSE:
            hint = f". If that is another `holdfast dev`, stop it; `--http {host}:0` takes a free port"
        raise InvalidInput(f"cannot listen on {host}:{port}: {why}{hint}") from error
    return made
