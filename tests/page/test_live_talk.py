"""Streams, questions, queues and limits of real runs on the real server."""

from __future__ import annotations

import re

from anyio import to_thread
from playwright.async_api import Page, expect

from holdfast import App
from tests.page import shop as code
from tests.page.live import Shop
from tests.page.test_live import enter


async def test_a_stream_survives_the_crash_of_its_worker(page: Page, shop: Shop, app: App) -> None:
    """Contract: what the dead attempt said is marked when the next one speaks, live; then the page asks the run,
    and its attributes change before our eyes."""
    first = shop.worker("worker-1", hold="answer")
    await app.start(code.agent("hello"), id="agent-1")
    await enter(page, shop, "run?id=agent-1")
    log = page.get_by_role("log")
    await expect(log.locator("[data-state=open]")).to_contain_text("attempt 1 says hello")
    first.kill()
    await to_thread.run_sync(first.wait)
    shop.worker("worker-2", hold="approved_by")
    await expect(log.locator("[data-state=superseded]")).to_contain_text("attempt 1 says hello")
    await expect(log.locator("[data-state=completed]")).to_contain_text("attempt 2 says hello")
    await page.get_by_role("button", name="Ask reassign").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("value", exact=True).fill('"bob"')
    await dialog.get_by_role("button", name="Ask", exact=True).click()
    await expect(dialog.get_by_label("answer")).to_have_text('"now bob\'s"')
    await dialog.get_by_role("button", name="Close").click()
    await expect(page.locator(".facts")).to_contain_text("owner bob")
    await expect(page.get_by_label("questions")).to_contain_text("now bob's")


async def test_queues_and_limits_are_acted_upon(page: Page, shop: Shop, app: App) -> None:
    """Contract: what is set, paused and reset on the page counts in the store; holders of a limit are named."""
    shop.worker("worker-1", hold="answer")
    for number in range(2):
        await app.start(code.agent("hello"), id=f"agent-{number}")
    await enter(page, shop, "limits")
    model = page.get_by_label("model", exact=True)
    await expect(model).to_contain_text(re.compile("1 waiting.*1 running", re.DOTALL))
    await model.get_by_role("link", name="model", exact=True).click()
    await expect(page.get_by_label("keys of the limit")).to_contain_text(
        re.compile("1 of 1 taken.*agent-. answer", re.DOTALL)
    )
    await page.goto(f"{shop.address}queues")
    emails, dialog = page.get_by_label("emails", exact=True), page.get_by_role("dialog")
    await expect(emails).to_contain_text("2 at once")
    await emails.get_by_role("button", name="Set", exact=True).click()
    await dialog.get_by_label("At once runs begun").fill("7")
    await dialog.get_by_role("button", name="Set", exact=True).click()
    await expect(emails).to_contain_text("7 at once")
    await emails.get_by_role("button", name="Pause").click()
    await dialog.get_by_label("Reason").fill("provider is down")
    await dialog.get_by_role("button", name="Pause").click()
    await expect(emails).to_contain_text("provider is down")
    (view,) = [view for view in await app.queues() if view.name == "emails"]
    assert (view.at_once, view.is_paused, view.reason) == (7, True, "provider is down")
