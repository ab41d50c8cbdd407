"""Schedules in a real browser: what is next, what ran, what was missed, and what people do to them."""

from __future__ import annotations

import re
from typing import Any

from playwright.async_api import Page, expect

from tests.page import samples
from tests.page.fake import Site
from tests.page.samples import Json, instant

DAY = 86_400


def schedule(name: str, **more: Any) -> Json:
    upcoming = [instant(3 * 3600 + 30 + number * DAY) for number in range(5)]
    return {
        "name": name, "workflow": "reprice", "in_words": "At 03:00, in Europe/Berlin", "next": upcoming[0],
        "upcoming": upcoming, "last": instant(-DAY), "last_run": f"{name}@2026-03-29T03:00:00+02:00",
        "last_status": "completed", "fired": 30, "missed": 0, "skipped": 0, "buffered": 0, "overlap": "skip",
        "paused": False, "reason": "", "declared_by": "worker-1", "by_hand": False, "is_declared": True,
    } | more  # fmt: skip


def with_schedules(site: Site) -> None:
    still: Json = {"next": None, "upcoming": []}
    nightly = schedule("nightly", missed=2, skipped=1)
    site.answers["schedules"] = {
        "schedules": [
            nightly,
            schedule("pulse", in_words="every 15 min", last_status="failed", is_declared=False),
            schedule("stock", paused=True, reason="stock-taking", **still),
            schedule("once", in_words="at 2026-12-24 18:00 UTC", last="", last_run="", last_status="", **still),
        ],
        "problems": [],
        "next": "",
    }
    runs = [
        samples.run("nightly@2026-03-29T03:00:00+02:00", "completed", workflow="reprice"),
        samples.run("nightly@2026-03-28T03:00:00+01:00", "failed", workflow="reprice"),
    ]
    site.answers["schedule"] = {"schedule": nightly, "runs": runs}


async def test_schedules_say_when_they_run_and_how_the_last_run_ended(page: Page, site: Site) -> None:
    """Contract: words, the next time (UTC on hover), the last run with its status, missed slots, why it is paused."""
    with_schedules(site)
    await page.goto(f"{site.url}/schedules")
    nightly = page.get_by_label("nightly", exact=True)
    for text in ("At 03:00, in Europe/Berlin", "completed", "2 missed, 1 skipped", "starts reprice"):
        await expect(nightly).to_contain_text(text)
    await expect(nightly).to_contain_text(re.compile("next .*, in 3 h"))
    await expect(nightly.locator("time")).to_have_attribute("title", re.compile("UTC$"))
    await expect(page.get_by_label("pulse", exact=True)).to_contain_text("no live worker declares it")
    await expect(page.get_by_label("stock", exact=True)).to_contain_text("stock-taking")
    await expect(page.get_by_label("once", exact=True)).to_contain_text("over: no slot is left")
    await nightly.get_by_role("link", name="nightly@").click()
    await expect(page).to_have_url(f"{site.url}/run?id=nightly%402026-03-29T03%3A00%3A00%2B02%3A00")


async def test_a_schedule_shows_its_next_times_and_last_runs(page: Page, site: Site) -> None:
    with_schedules(site)
    await page.goto(f"{site.url}/schedules")
    await page.get_by_role("link", name="nightly", exact=True).click()
    await expect(page).to_have_url(f"{site.url}/schedules?name=nightly")
    slots = page.get_by_label("slots").get_by_role("listitem")
    await expect(slots).to_have_count(2 + 1 + 5)
    await expect(slots.nth(0)).to_have_class("is-failed")
    await expect(slots.nth(2)).to_have_text("now")
    await slots.nth(1).get_by_role("link").click()
    await expect(page).to_have_url(f"{site.url}/run?id=nightly%402026-03-29T03%3A00%3A00%2B02%3A00")
    await page.go_back()
    runs = page.get_by_label("last runs").get_by_role("listitem")
    await expect(runs).to_have_count(2)
    await expect(runs.nth(1)).to_contain_text(re.compile("nightly@2026-03-28.*failed"))


async def test_acts_ask_first(page: Page, site: Site) -> None:
    """Contract: nothing is sent before the dialog is confirmed; each act is sent with the schedule's name."""
    with_schedules(site)
    site.answers |= {
        "schedule/pause": {"schedule": schedule("nightly")},
        "schedule/resume": {"schedule": schedule("stock")},
        "schedule/trigger": {"schedule": schedule("nightly"), "run": "nightly@trigger:1"},
    }
    await page.goto(f"{site.url}/schedules")
    nightly, dialog = page.get_by_label("nightly", exact=True), page.get_by_role("dialog")
    await nightly.get_by_role("button", name="Trigger").click()
    await expect(dialog).to_contain_text("A run starts now")
    await dialog.get_by_role("button", name="Not now").click()
    assert site.posts == []
    await nightly.get_by_role("button", name="Trigger").click()
    await dialog.get_by_role("button", name="Trigger").click()
    await expect(page.locator(".toast").last).to_contain_text("nightly@trigger:1")
    await nightly.get_by_role("button", name="Pause").click()
    await dialog.get_by_label("Reason").fill("stock-taking")
    await dialog.get_by_role("button", name="Pause").click()
    await expect(page.locator(".toast").last).to_contain_text("paused")
    await page.get_by_label("stock", exact=True).get_by_role("button", name="Resume").click()
    await dialog.get_by_role("button", name="Resume").click()
    await expect(page.locator(".toast").last).to_contain_text("resumed")
    (_, _, triggered), *_ = site.posts
    assert list(triggered) == ["id"]
    assert site.posts == [
        ("schedule/trigger", {"name": "nightly"}, triggered),
        ("schedule/pause", {"name": "nightly"}, {"reason": "stock-taking"}),
        ("schedule/resume", {"name": "stock"}, {}),
    ]


async def test_a_trigger_without_an_answer_is_tried_again_with_its_id(page: Page, site: Site) -> None:
    """Contract: the dialog stays open with what went wrong; the same dialog starts one run, the next one another."""
    with_schedules(site)
    await page.goto(f"{site.url}/schedules")
    dialog = page.get_by_role("dialog")
    await page.get_by_label("nightly", exact=True).get_by_role("button", name="Trigger").click()
    await dialog.get_by_role("button", name="Trigger").click()
    await expect(dialog.get_by_role("alert")).to_be_visible()
    site.answers["schedule/trigger"] = {"schedule": schedule("nightly"), "run": "nightly@trigger:1"}
    await dialog.get_by_role("button", name="Trigger").click()
    await expect(dialog).to_have_count(0)
    await page.get_by_label("nightly", exact=True).get_by_role("button", name="Trigger").click()
    await dialog.get_by_role("button", name="Trigger").click()
    await expect(dialog).to_have_count(0)
    first, again, another = [body["id"] for _, _, body in site.posts]
    assert first == again != another


async def test_a_time_is_backfilled_and_a_forgotten_schedule_removed(page: Page, site: Site) -> None:
    """Contract: a backfill sends instants in UTC and says what became of the slots; only what no worker declares can be
    removed."""
    with_schedules(site)
    fates = ("started", "started", "skipped")
    slots = [{"at": instant(0), "run": f"nightly@backfill:{number}", "fate": fate} for number, fate in enumerate(fates)]
    site.answers["schedule/backfill"] = {"schedule": schedule("nightly"), "slots": slots}
    dialog = page.get_by_role("dialog")
    await page.goto(f"{site.url}/schedules?name=nightly")
    await expect(page.get_by_label("nightly", exact=True).get_by_role("button", name="Remove")).to_have_count(0)
    await page.get_by_role("button", name="Backfill").click()
    await dialog.get_by_label("From").fill("2026-03-01T03:00")
    await dialog.get_by_label("Until").fill("2026-03-04T03:00")
    await dialog.get_by_label("At most").fill("50")
    since, until = await page.evaluate(
        "['2026-03-01T03:00', '2026-03-04T03:00'].map(text => new Date(text).toISOString())"
    )
    await dialog.get_by_role("button", name="Backfill").click()
    await expect(page.locator(".toast").last).to_have_text("nightly: 2 started, 1 skipped")
    assert site.posts == [("schedule/backfill", {"name": "nightly"}, {"since": since, "until": until, "most": 50})]
    await page.get_by_role("link", name="Schedules", exact=True).last.click()
    await page.get_by_label("pulse", exact=True).get_by_role("button", name="Remove").click()
    await dialog.get_by_role("button", name="Remove").click()
    await expect(page.locator(".toast").last).to_have_text("pulse: removed")
    assert site.removed == ["schedule pulse"]


async def test_without_schedules_the_page_says_how_to_declare_one(page: Page, site: Site) -> None:
    await page.goto(f"{site.url}/schedules")
    await expect(page.locator(".empty")).to_contain_text("App(workflows=[reprice], schedules=[nightly])")


async def test_a_schedule_that_cannot_be_read_is_named(page: Page, site: Site) -> None:
    with_schedules(site)
    site.answers["schedules"]["problems"] = ["schedule broken: its row cannot be read"]
    await page.goto(f"{site.url}/schedules")
    await expect(page.get_by_role("alert")).to_contain_text("schedule broken")
    await expect(page.get_by_label("nightly", exact=True)).to_be_visible()
