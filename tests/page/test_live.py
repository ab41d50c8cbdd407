"""The page on the real server, with real workers that are really killed."""

from __future__ import annotations

import os
import re

import pytest
from anyio import to_thread
from playwright.async_api import Browser, Page, expect

from holdfast import App
from tests.page import shop as code
from tests.page.bundle import ROOT
from tests.page.live import Shop
from tests.page.test_looks import complaints, load_axe

IMAGES = ROOT / "docs" / "images"
UPDATES = bool(os.environ.get("HOLDFAST_UPDATE_SNAPSHOTS"))
PACE = 0.4 if UPDATES else 0.02
"""Seconds that a body lasts: in the pictures of the docs it is to be seen."""


async def enter(page: Page, shop: Shop, place: str) -> None:
    """Signs in by the link, and goes there."""
    await page.goto(await to_thread.run_sync(shop.serve))
    await expect(page.locator("h1")).to_have_text("Runs")
    await page.goto(f"{shop.address}{place}")


async def test_a_worker_dies_and_another_takes_over_before_our_eyes(page: Page, shop: Shop, app: App) -> None:
    """Contract: the crash, what it cut off, the take-over and everything after it appear without a reload."""
    first = shop.worker("worker-1", hold="warehouse", pace=PACE)
    await enter(page, shop, "workers")
    await expect(page.get_by_label("worker-1")).to_contain_text("alive")
    await app.start(code.fulfil(code.Order("48213", 250)), id="order/48213", attributes={"tier": "gold"})
    await page.goto(f"{shop.address}run?id=order%2F48213")
    await expect(page.locator(".now")).to_be_visible()
    await page.evaluate("window.isSame = true")
    await expect(page.locator(".now")).to_have_text("Step warehouse")
    await expect(page.locator(".journal")).to_contain_text("attempt 1 failed charge")
    first.kill()
    await to_thread.run_sync(first.wait)
    shop.worker("worker-2", pace=PACE)
    chart = page.locator(".gantt")
    await expect(chart).to_contain_text(re.compile("took over after"))
    await expect(chart.locator("[fill='url(#cut)']")).to_have_count(1)
    await expect(page.locator(".journal")).to_contain_text("taken over worker-2 begins again: warehouse")
    await expect(page.locator(".now")).to_contain_text("Waiting for signal approved")
    await page.get_by_role("button", name="Answer approved").click()
    await page.get_by_role("dialog").get_by_role("button", name="Send").click()
    await expect(page.locator(".toast")).to_contain_text("the run waited for it")
    await expect(page.locator(".now")).to_contain_text(
        re.compile("Step receipt failed, retrying in .*, attempt 2 of 3. .*printer on fire")
    )
    await expect(page.locator(".facts")).to_contain_text("last held by worker-2")  # it waits: nobody holds it
    await page.locator(".names a", has_text="receipt").click()
    await expect(page.get_by_label("step receipt")).to_contain_text("ConnectionError: printer on fire")
    await expect(page.get_by_label("step receipt")).to_contain_text("shop.py")
    assert await page.evaluate("window.isSame") is True
    seen = await page.locator(".journal-row").evaluate_all("rows => rows.map(row => row.title)")
    assert len(seen) == len(set(seen)), "a fact was drawn twice"
    await page.locator(".names a", has_text="warehouse").click()
    inspector = page.get_by_label("step warehouse")
    await expect(inspector).to_contain_text("attempt 1 · cut off · worker-1")
    await expect(inspector).to_contain_text("attempt 2 · completed · worker-2")
    await draw(page)
    await page.goto(f"{shop.address}workers")
    await expect(page.get_by_label("worker-2")).to_contain_text("took over order/48213 from worker-1")


async def draw(page: Page) -> None:
    """The pictures of the docs, in light, in dark and on a phone."""
    if not UPDATES:
        return
    await page.mouse.move(5, 500)
    await expect(page.locator(".toast")).to_have_count(0)
    await page.emulate_media(color_scheme="dark")
    await page.screenshot(path=IMAGES / "run-dark.png")
    await page.emulate_media(color_scheme="light")
    await page.screenshot(path=IMAGES / "run-light.png")
    await page.set_viewport_size({"width": 420, "height": 800})
    await page.keyboard.press("Escape")
    await page.evaluate("document.activeElement.blur()")
    await page.screenshot(path=IMAGES / "run-phone.png")
    await page.set_viewport_size({"width": 1360, "height": 760})


async def act(page: Page, label: str, reason: str = "") -> None:
    await page.locator(".acts").get_by_role("button", name=label, exact=True).click()
    dialog = page.get_by_role("dialog")
    if reason:
        await dialog.get_by_label("Reason").fill(reason)
    await dialog.get_by_role("button", name=label, exact=True).click()
    await expect(page.get_by_role("dialog")).to_have_count(0)


async def test_a_form_starts_a_run_and_every_act_changes_one(page: Page, shop: Shop, app: App) -> None:
    """Contract: what the page sends is what happens, and it shows it live; an id may have any character."""
    run = await app.start(code.fulfil(code.Order("1", 1)), id="order-1")
    shop.worker("worker-1")
    await enter(page, shop, "run?id=order-1")
    await expect(page.locator(".now")).to_contain_text("Waiting for signal approved")
    await act(page, "Pause", "stock-taking")
    await expect(page.locator(".now")).to_contain_text("Paused (operator). stock-taking")
    assert await run.status() == "paused"
    await act(page, "Resume")
    await expect(page.locator(".now")).to_contain_text("Waiting for signal approved")
    await act(page, "Cancel", "customer left")
    await expect(page.locator(".now")).to_contain_text(re.compile("Cancelled after .* customer left"))
    await expect(page.locator(".live")).to_have_text("ended")
    await act(page, "Retry")
    await expect(page.locator(".facts")).to_contain_text("retry of order-1")
    await act(page, "Kill", "enough")
    await expect(page.locator(".pill")).to_contain_text("cancelled")
    await page.goto(f"{shop.address}workflow?name=quick")
    await page.get_by_role("button", name="Start a run").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("name").fill("Ann <b>")
    await dialog.get_by_label(re.compile("^Id")).fill("hello/1?#+")
    await dialog.get_by_role("button", name="Start", exact=True).click()
    await expect(page.locator("h1")).to_have_text("hello/1?#+")
    await expect(page.locator(".now")).to_contain_text("Completed after")
    await expect(page.get_by_role("region", name="Result")).to_contain_text('"hello Ann <b>"')


async def fill(app: App) -> None:
    """A store with something of everything."""
    await app.start(code.fulfil(code.Order("48212", 250)), id="order-48212", attributes={"tier": "gold"})
    await app.start(code.broken("carrier.example: connection refused"), id="order-48209")
    await app.start(code.parcel(code.Packing("42")), id="parcel-42")
    await app.start(code.pricing({"sku": "abc"}), id="pricing-7")
    for number in range(4):
        await app.start(code.quick(f"customer {number}"), id=f"mail-{99120 + number}")
    await app.start_batch(code.price, [f"sku-{number}" for number in range(20)], id="prices", concurrency=5)


@pytest.mark.spec("openworkflow.O126")
async def test_every_page_shows_what_is_there(page: Page, shop: Shop, app: App) -> None:
    await fill(app)
    shop.worker("worker-1")
    await enter(page, shop, "?q=order")
    row = page.locator("[data-run='order-48212']")
    await expect(row).to_contain_text("waiting for signal approved, 2 d 23 h left")
    await expect(page.locator("[data-run='order-48209']")).to_contain_text("carrier.example: connection refused")
    await expect(page.locator(".chip", has_text="failed 1")).to_be_visible()
    await page.goto(f"{shop.address}?attribute=tier%3Dgold")
    await expect(page.locator(".row")).to_have_count(1)

    await page.goto(f"{shop.address}run?id=parcel-42&tab=graph")
    graph = page.get_by_label("states and the path taken")
    await expect(graph.locator("[data-state=completed]").first).to_contain_text("2 times")
    await expect(graph.locator("[data-state=completed]")).to_have_count(3)  # with the final state
    await page.goto(f"{shop.address}run?id=pricing-7&tab=graph")
    await expect(page.get_by_label("steps of the flow").locator("[data-state=completed]")).to_have_count(3)

    await page.goto(f"{shop.address}batch?id=prices")
    await expect(page.locator(".counts")).to_contain_text("18 of 20 completed")
    await expect(page.locator("tbody")).to_contain_text("no price for sku-13")
    await page.goto(f"{shop.address}workflows")
    await expect(page.get_by_label("price", exact=True)).to_contain_text("90.0 %")
    await page.goto(f"{shop.address}workers")
    await expect(page.get_by_label("worker-1")).to_contain_text("alive")
    await page.goto(f"{shop.address}queues")
    await expect(page.get_by_label("default", exact=True)).to_contain_text("served by worker-1")
    await page.goto(shop.address)
    await expect(page.locator(".list-foot")).to_have_text("29 runs, no older ones")


async def test_a_server_that_restarts_is_found_again(browser: Browser, shop: Shop, app: App) -> None:
    """Contract: a session outlives the server if it has a key for them, and what happened meanwhile is shown, once.
    Several runs are cancelled at once; a revoked token ends at the login."""
    (shop.folder / "holdfast.toml").write_text('[http]\nsession_key = "a key of the tests, and long enough"\n')
    token = shop.token("admin")
    await to_thread.run_sync(shop.serve)
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(shop.address)
    await page.get_by_label("Token").fill(token)
    await page.get_by_role("button", name="Sign in").click()
    await app.start(code.quick("x"), id="before")
    await expect(page.locator("[data-run=before]")).to_be_visible()
    await to_thread.run_sync(shop.stop_page)
    await expect(page.locator(".live")).to_contain_text("not connected since")
    await app.start(code.quick("y"), id="meanwhile")
    await to_thread.run_sync(shop.serve)
    await expect(page.locator("[data-run=meanwhile]")).to_have_count(1)
    await expect(page.locator(".live")).to_have_text("live")
    assert await page.locator(".row").count() == 2
    for number in range(3):
        await app.start(code.quick("x"), id=f"mail-{number}")
    await page.goto(f"{shop.address}?q=mail")
    await expect(page.locator(".row")).to_have_count(3)
    await page.get_by_label("select mail-0").click()
    await page.get_by_label("select mail-2").click()
    await page.locator(".picked").get_by_role("button", name="Cancel", exact=True).click()
    await page.get_by_role("dialog").get_by_role("button", name="Cancel 2").click()
    await expect(page.locator(".toast")).to_contain_text("cancel: 2 runs")
    for number, status in enumerate(("cancelled", "waiting for a worker", "cancelled")):
        await expect(page.locator(f"[data-run='mail-{number}']")).to_contain_text(status)
    shop.revoke()
    await expect(page.get_by_label("Token")).to_be_visible()
    await context.close()


async def test_hostile_values_of_a_real_run_are_only_text(page: Page, shop: Shop, app: App) -> None:
    """Contract: markup, escape sequences, turned text and two megabytes: shown, harmless, and axe is content."""
    hostile = "<script>window.hacked = 1</script>\x1b[31m\u202egnp.exe"
    await app.start(code.broken(hostile), id="<img src=x onerror=alert(1)>")
    await app.start(code.quick("x" * 2_000_000), id="large")
    shop.worker("worker-1")
    await enter(page, shop, "")
    await expect(page.locator(".error-text")).to_contain_text("\\u001b[31m\\u202egnp.exe")
    await page.locator(".row a", has_text="onerror").click()
    await expect(page.get_by_label("error", exact=True).first).to_contain_text("<script>window.hacked = 1</script>")
    await page.goto(f"{shop.address}run?id=large")
    value = page.get_by_label("Input", exact=True)
    await value.get_by_role("button", name="Load 2.0 MB").click()
    await value.get_by_role("button", name="Show all 2.0 MB").click()
    assert len(await value.locator("pre").inner_text()) > 2_000_000
    assert await page.evaluate("window.hacked") is None
    assert await page.locator("script:not([src]), img").count() == 0
    await page.goto(f"{shop.address}queues")
    await expect(page.get_by_label("default", exact=True)).to_contain_text("served by worker-1")
    await load_axe(page)
    assert not await complaints(page)
