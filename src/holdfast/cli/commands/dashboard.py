"""`holdfast dashboard`: the page and the HTTP API, as a process."""

from __future__ import annotations

import asyncio
import signal
import sys
import webbrowser
from typing import Any

import click

from holdfast.app import App
from holdfast.cli.commands.tokens import token_file
from holdfast.cli.output import Output
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.cli.targets import app_to_serve, refuse_missing, refuse_private, store_app
from holdfast.config import Loaded, load
from holdfast.doors import web

ADDRESS = "127.0.0.1:7070"


@click.command("dashboard", cls=HoldfastCommand)
@click.argument("target", metavar="[MODULE:APP]", required=False)
@click.option("--url", help="Address of a store, to serve it without an app; the page then cannot start runs.")
@click.option("--http", "address", metavar="HOST:PORT", default=ADDRESS, show_default=True, help="Where to listen.")
@click.option("--open", "is_opening", is_flag=True, help="Open the page in a browser.")
@click.option("--no-link", is_flag=True, help="Print the address without a link; users sign in with a token.")
@click.option("--json", "is_json", is_flag=True, help="The address as one object.")
@click.option("--dev-tokens", metavar="FILE", hidden=True, help="Of `holdfast dev`: its first token opens the link.")
@click.option("--line", type=int, hidden=True, help="Of `holdfast dev`: its line to this process.")
def command(
    target: str | None,
    url: str | None,
    address: str,
    is_opening: bool,
    no_link: bool,
    is_json: bool,
    dev_tokens: str | None,
    line: int | None,
) -> None:
    """Serve the page and the HTTP API until SIGTERM or Ctrl-C, and print the address.

    On loopback the address signs in the first browser that opens it within a minute; SIGHUP prints a new one. Elsewhere
    it needs tokens: `holdfast tokens add NAME --role read`. It does not encrypt: put it behind a TLS proxy.
    """
    loaded = load()
    app = _app(target, url, loaded)
    out = Output(is_json=is_json, stream=sys.stdout if is_json else sys.stderr)
    run_async(_serve(app, loaded, address, dev_tokens, out, is_opening=is_opening, has_link=not no_link, line=line))


def _app(target: str | None, url: str | None, loaded: Loaded) -> App:
    if url is None and (target or loaded.settings.app or loaded.settings.discover):
        app = app_to_serve(target, loaded)
    else:
        app, _ = store_app(target, url)
    refuse_private(app.url)
    return app


async def _serve(
    app: App,
    loaded: Loaded,
    address: str,
    dev_tokens: str | None,
    out: Output,
    *,
    is_opening: bool,
    has_link: bool,
    line: int | None,
) -> None:
    if app.registry.is_empty:
        await refuse_missing(app.url)
    server, settings = web("server"), loaded.settings.http
    host, port = server.parse_address(address)
    stop, again = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, again.set)
    if line is not None:
        loop.add_reader(line, stop.set)  # it has ended
    tokens = token_file(loaded)
    hosts, secret = settings.allowed_hosts, settings.session_key
    more = None if dev_tokens is None else token_file(loaded, dev_tokens)
    options: dict[str, Any] = {"allowed_hosts": hosts, "secret": secret, "more_tokens": more}
    async with app, server.served(app, host, port, tokens, **options) as serving:
        token = next(iter(more.tokens()), None) if more is not None else None
        has_link = has_link and server.is_loopback(host)
        link = say_where(serving, token, out, has_link=has_link)
        if is_opening:
            await asyncio.to_thread(webbrowser.open, link)
        while not stop.is_set():
            waiting = [asyncio.ensure_future(event.wait()) for event in (stop, again)]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for one in waiting:
                one.cancel()
            if again.is_set() and not stop.is_set():
                again.clear()
                say_where(serving, token, out, has_link=has_link)


def say_where(serving: Any, token: Any, out: Output, *, has_link: bool) -> str:
    """Prints the address of a server, with a one-time link if that is allowed."""
    link: str = serving.link(token) if has_link else serving.url
    if out.is_json:
        out.record({"url": serving.url, "page": link})
        sys.stdout.flush()
    else:
        click.echo(f"page: {link}", err=True)  # as it is, however narrow the terminal: it is to be clicked
    return link


__all__ = ["ADDRESS", "command", "say_where"]
