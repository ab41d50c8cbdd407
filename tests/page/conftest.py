"""One browser for the tests of a process, a fresh profile and a fresh site for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright, expect

from holdfast import App
from tests.page.chromium import FLAGS, find_browser
from tests.page.fake import Site, serve
from tests.page.live import Shop, open_shop
from tests.page.shop import WORKFLOWS

PATIENCE = 60_000
"""Milliseconds for which an expectation is waited for: only a test that fails takes so long."""

expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="session")
async def browser(anyio_backend: str) -> AsyncIterator[Browser]:
    found = find_browser()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=found.program, args=FLAGS, env={**found.env})
        yield browser
        await browser.close()


@pytest.fixture
def site() -> Iterator[Site]:
    with serve(Site()) as site:
        yield site


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """The real server, with real workers."""
    with open_shop(tmp_path) as shop:
        yield shop


@pytest.fixture
async def app(shop: Shop) -> AsyncIterator[App]:
    """The store of the shop, from the test's own process."""
    async with App(shop.url, workflows=WORKFLOWS) as app:
        yield app


@pytest.fixture
async def page(browser: Browser) -> AsyncIterator[Page]:
    """A page that must not raise, nor try what its content security policy forbids."""
    context = await browser.new_context(viewport={"width": 1360, "height": 760}, reduced_motion="reduce")
    page = await context.new_page()
    page.set_default_timeout(PATIENCE)
    complaints: list[str] = []

    def listen(message: ConsoleMessage) -> None:
        if message.type == "error" and "Failed to load resource" not in message.text and "ERR_" not in message.text:
            complaints.append(message.text)

    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", listen)
    yield page
    await context.close()
    assert not complaints
