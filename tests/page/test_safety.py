"""Signing in, and payloads that would like to be more than text."""

from __future__ import annotations

import re

from playwright.async_api import Page, expect

from tests.page import samples
from tests.page.fake import TOKEN, Site

SCRIPT = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>"
HOSTILE = f"{SCRIPT}\x1b[31mred\u202egnp.exe שלום"


async def test_hostile_text_is_only_text(page: Page, site: Site) -> None:
    """Contract: whatever is in an id, an error or a payload, it is shown, does nothing and turns nothing around."""
    bad = samples.run(HOSTILE, "failed", age=1, error=HOSTILE, attributes={HOSTILE: HOSTILE}, workflow=HOSTILE)
    site.runs.insert(0, bad)
    story = samples.story(bad) | {"input": {HOSTILE: HOSTILE}, "exposed": {HOSTILE: HOSTILE}, "problems": [HOSTILE]}
    story["failure"] = {"type": HOSTILE, "message": HOSTILE, "traceback": HOSTILE}
    for entry in story["timeline"]:
        entry.update(name=HOSTILE, key=HOSTILE, text=HOSTILE, worker=HOSTILE)
    site.answers["run/story"] = story
    await page.goto(site.url)
    await expect(page.locator(".row").first).to_contain_text("\\u001b[31mred\\u202egnp.exe")
    await page.locator(".row a").first.click()
    await expect(page.locator("h1")).to_contain_text("<script>window.hacked = 1</script>")
    await expect(page.locator("pre.value").first).to_contain_text("\\u202egnp.exe")
    await page.locator(".names a").first.click()
    assert await page.evaluate("window.hacked") is None
    assert await page.locator("script:not([src]), img").count() == 0
    acting = "[...document.body.innerText].filter(c => '\\u202e\\u001b'.includes(c)).length"
    assert await page.evaluate(acting) == 0


async def test_two_megabytes_are_shown_a_screen_at_a_time(page: Page, site: Site) -> None:
    order = next(run for run in site.runs if run["id"] == "order-48211")
    site.answers["run/story"] = samples.story(order) | {"input": "x" * 2_000_000, "run": order}
    await page.goto(f"{site.url}/run?id=order-48211")
    value = page.get_by_label("Input", exact=True).locator("pre")
    assert len(await value.inner_text()) < 10_000
    await page.get_by_label("Input", exact=True).get_by_role("button", name="Show all 2.0 MB").click()
    assert len(await value.inner_text()) > 2_000_000


async def test_a_large_payload_is_loaded_when_asked_for(page: Page, site: Site) -> None:
    order = next(run for run in site.runs if run["id"] == "order-48211")
    site.answers["run/story"] = samples.story(order) | {"input": {"$large": True, "size": 90_000}, "run": order}
    site.answers["run/value"] = {"order": "the large one"}
    await page.goto(f"{site.url}/run?id=order-48211")
    await page.get_by_role("button", name="Load 90.0 KB").click()
    await expect(page.get_by_label("Input", exact=True).locator("pre")).to_contain_text("the large one")


async def test_a_token_signs_in_and_out(page: Page, site: Site) -> None:
    site.needs_login = True
    await page.goto(f"{site.url}/run?id=order-48213")
    await page.get_by_label("Token").fill("hf_wrong")
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("alert")).to_contain_text("This token is not known, or was revoked")
    await page.get_by_label("Token").fill(TOKEN)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.locator("h1")).to_have_text("order-48213")
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_label("Token")).to_be_visible()


async def test_the_code_of_a_link_is_used_once_and_leaves_the_address(page: Page, site: Site) -> None:
    """Contract: the code is in no history, no log and no second request."""
    site.needs_login = True
    await page.goto(f"{site.url}/#code=once")
    await expect(page.locator("h1")).to_have_text("Runs")
    assert page.url == f"{site.url}/"
    await page.reload()
    await expect(page.locator("h1")).to_have_text("Runs")
    assert site.posts == [("session", {}, {"code": "once"})]
    site.needs_login = True
    await page.goto(f"{site.url}/login#code=late")
    await expect(page.get_by_role("alert")).to_contain_text("The link no longer works")


async def test_a_revoked_token_ends_at_the_login(page: Page, site: Site) -> None:
    await page.goto(site.url)
    await expect(page.locator(".live")).to_have_text("live")
    site.needs_login = True
    site.say("runs/events", "bye", {"reason": "revoked"})
    await expect(page.get_by_label("Token")).to_be_visible()


async def test_a_reader_is_offered_nothing_that_changes_anything(page: Page, site: Site) -> None:
    session = samples.SESSION | {"role": "read", "can": []}
    await page.route(re.compile("/api/v1/session"), lambda route: route.fulfill(json=session))
    await page.goto(f"{site.url}/run?id=order-48213")
    await expect(page.locator(".now")).to_be_visible()
    await expect(page.locator(".acts button")).to_have_count(0)
    await page.goto(site.url)
    await expect(page.locator(".row")).to_have_count(len(site.runs))
    await expect(page.locator(".row input")).to_have_count(0)
    await expect(page.get_by_role("button", name="Start a run")).to_have_count(0)


async def test_an_outage_says_so_and_heals(page: Page, site: Site) -> None:
    site.is_down = True
    await page.goto(site.url)
    await expect(page.get_by_role("alert")).to_contain_text("The server does not answer")
    site.is_down = False
    await expect(page.locator("h1")).to_have_text("Runs")
