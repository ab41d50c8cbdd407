"""The page beside the demo: it shows the same order, live, from the demo's own store."""

from __future__ import annotations

import asyncio
import signal
import webbrowser
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from holdfast.app import App
from holdfast.cli.demo import demo_app
from holdfast.cli.demo.demo_stage import Stage
from holdfast.config import Configuration
from holdfast.doors import web

PATIENCE = 60.0
"""Seconds for which a link is valid."""


class DemoPage:
    """A page that is served. The order waits until the link is opened, so that the viewer misses nothing."""

    def __init__(self, serving: Any, order: str) -> None:
        self._codes = serving.server.service.gate.codes
        self.link: str = serving.link(place=f"run?id={order}")

    async def opened(self, *, is_opening: bool) -> bool:
        """Waits until the link is used. Returns False if it expired first. `is_opening` opens it in a browser."""
        if is_opening:
            await asyncio.to_thread(webbrowser.open, self.link)
        try:
            await asyncio.wait_for(self._codes.used.wait(), PATIENCE)
        except TimeoutError:
            return False
        return True


@asynccontextmanager
async def demo_page(stage: Stage, order: str) -> AsyncGenerator[DemoPage]:
    """Serves the page of the demo's store on a free port of loopback for as long as the block lasts. Its link opens the
    order, which begins then."""
    server, tokens = web("server"), web("tokens")
    app = App(stage.url, workflows=[demo_app.fulfil, demo_app.ship], config=Configuration())
    async with app, server.served(app, "127.0.0.1", 0, tokens.TokenFile(stage.folder / "tokens.json")) as serving:
        yield DemoPage(serving, order)


async def until_interrupted(say: Callable[[str], None]) -> None:
    """Keeps the page running until Ctrl-C."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, stop.set)
    try:
        say("The page stays until you press Ctrl-C.")
        await stop.wait()
    finally:
        loop.remove_signal_handler(signal.SIGINT)
