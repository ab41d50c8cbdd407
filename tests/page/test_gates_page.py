"""Queues and limits in a real browser: what waits, who has the places, what holds the rest back, what people set."""

from __future__ import annotations

import re
from typing import Any

from playwright.async_api import Page, expect

from tests.page.fake import Site
from tests.page.samples import Json, instant


def queue(name: str, **more: Any) -> Json:
    return {
        "name": name, "waiting": 0, "oldest": "", "since": None, "running": 0, "paused": 0, "capped": [],
        "workers": ["worker-1"], "unserved": [], "begun": 0, "parked": 0, "at_once": None, "per_worker": None,
        "rate": None, "shares": {}, "share_at_once": None, "frees_parked": False, "is_paused": False, "reason": "",
        "is_declared": True, "overrides": [], "next_at": None, "held_back": "", "loads": [], "share_count": 0,
        "problem": "",
    } | more  # fmt: skip


def with_queues(site: Site) -> None:
    loads = [{"share": f"tenant-{number}", "waiting": 20 - number, "begun": 2} for number in range(6)]
    emails = queue(
        "emails", waiting=120, oldest="mail-99120", since=instant(-90), running=18, begun=20, parked=3, at_once=20,
        per_worker=5, rate="100/m", shares={"gold": 3, "tenant-0": 2.5}, share_at_once=4, overrides=["at_once"],
        held_back="at_once: 20 of 20 places are taken, 3 of them parked", share_count=42,
        loads=[{"share": "gold", "waiting": 30, "begun": 4}, *loads],
    )  # fmt: skip
    site.answers["queues"] = {
        "queues": [
            queue("default", running=3, waiting=1, oldest="order-48213", since=instant(-2)),
            emails,
            queue(
                "imports", waiting=3, is_paused=True, reason="stock-taking", held_back="paused by ann: stock-taking",
                next_at=instant(30), rate="1/m",
            ),
            queue(
                "mails", waiting=3, oldest="mail-99120", since=instant(-90), running=10_000, capped=["running"],
                workers=[], unserved=[{"workflow": "email", "version": "3", "count": 2}], is_declared=False,
            ),
        ]
    }  # fmt: skip
    site.answers["queue"] = {"queue": emails}


def limit(name: str, **more: Any) -> Json:
    return {
        "name": name, "rate": "", "burst": 1, "at_once": None, "held": 0, "waiting": 0, "next": None, "keys": 0,
        "paused": False, "reason": "", "by_hand": False,
    } | more  # fmt: skip


def with_limits(site: Site) -> None:
    customer = limit("customer", at_once=5, held=17, waiting=30, keys=4)
    site.answers["limits"] = {
        "limits": [
            limit("api", rate="50/s", burst=10, waiting=120, keys=1, next=instant(75), by_hand=True),
            customer,
            limit("printer", at_once=1, paused=True, reason="out of paper"),
        ]
    }
    places = [{"run": f"order-{number}", "step": "price:3"} for number in range(5)]
    site.answers["limit"] = {
        "limit": customer,
        "busiest": [
            {"key": "acme", "held": 5, "waiting": 27, "next": None, "oldest": instant(-42), "places": places},
            {"key": "", "held": 4, "waiting": 3, "next": instant(90), "oldest": instant(-3), "places": places[:2]},
        ],
        "keys": [],
        "next": "",
    }


async def test_a_queue_without_worker_says_what_to_do(page: Page, site: Site) -> None:
    with_queues(site)
    await page.goto(f"{site.url}/queues")
    line = page.get_by_label("mails", exact=True)
    for text in ("mail-99120", "10,000+", "--queue mails", "2 of email v3 wait for a worker that has this version"):
        await expect(line).to_contain_text(text)


async def test_a_queue_says_its_rules_its_places_and_what_holds_runs_back(page: Page, site: Site) -> None:
    """Contract: rules in words, what waits and since when, places, shares with their weights, the reason of a pause."""
    with_queues(site)
    await page.goto(f"{site.url}/queues")
    emails = page.get_by_label("emails", exact=True)
    for text in (
        "20 at once, 5 per worker, 100/m, 4 of a share at once", "at_once set by hand", "120 waiting", "18 running",
        "20 of 20 places taken, 3 by runs that only wait", "at_once: 20 of 20 places are taken, 3 of them parked",
    ):  # fmt: skip
        await expect(emails).to_contain_text(text)
    await expect(emails).to_contain_text(re.compile("mail-99120 waits 1 min"))
    shares = emails.get_by_label("shares").get_by_role("listitem")
    await expect(shares).to_have_count(5)
    await expect(shares.nth(0)).to_contain_text(re.compile("gold.*×3.*4 of 4 begun, 30 waiting", re.DOTALL))
    await expect(shares.nth(4)).to_contain_text("and 38 more")
    imports = page.get_by_label("imports", exact=True)
    await expect(imports).to_contain_text(re.compile("paused.*by ann: stock-taking"))
    await emails.get_by_role("link", name="emails", exact=True).click()
    await expect(page).to_have_url(f"{site.url}/queues?name=emails")
    await expect(page.get_by_role("row", name="at_once 20 set by hand")).to_be_visible()
    await expect(page.get_by_role("row", name="shares gold=3 tenant-0=2.5 the code")).to_be_visible()
    await expect(page.get_by_label("shares").get_by_role("listitem")).to_have_count(8)


async def test_a_queue_is_paused_resumed_set_and_reset(page: Page, site: Site) -> None:
    """Contract: nothing is sent before the dialog is confirmed; only the rules that were changed are sent, and an empty
    field lifts one."""
    with_queues(site)
    site.answers |= {f"queue/{act}": {"queue": queue("emails")} for act in ("pause", "resume", "set", "reset")}
    await page.goto(f"{site.url}/queues")
    emails, dialog, said = page.get_by_label("emails", exact=True), page.get_by_role("dialog"), page.locator(".toast")
    await emails.get_by_role("button", name="Pause").click()
    await expect(dialog).to_contain_text("Runs that have begun continue")
    await dialog.get_by_role("button", name="Not now").click()
    assert site.posts == []
    await emails.get_by_role("button", name="Pause").click()
    await dialog.get_by_label("Reason").fill("provider is down")
    await dialog.get_by_role("button", name="Pause").click()
    await expect(said.last).to_contain_text("emails: paused")
    await page.get_by_label("imports", exact=True).get_by_role("button", name="Resume").click()
    await dialog.get_by_role("button", name="Resume").click()
    await expect(said.last).to_contain_text("imports: resumed")
    await emails.get_by_role("button", name="Set", exact=True).click()
    await expect(dialog.get_by_role("button", name="Set", exact=True)).to_be_disabled()
    await dialog.get_by_label("At once runs begun").fill("40")
    await dialog.get_by_label("Rate").fill("")
    await dialog.get_by_label("Shares").fill("gold=3 silver")
    await dialog.get_by_role("button", name="Set", exact=True).click()
    await expect(dialog.get_by_role("alert")).to_contain_text("silver: write a share and its weight, such as gold=3")
    await dialog.get_by_label("Shares").fill("gold=3 silver=1.5")
    await dialog.get_by_role("button", name="Set", exact=True).click()
    await expect(said.last).to_contain_text("set, until it is reset")
    await emails.get_by_role("button", name="Reset").click()
    await dialog.get_by_role("button", name="Reset").click()
    await expect(said.last).to_contain_text("follows the code again")
    assert site.posts == [
        ("queue/pause", {"name": "emails"}, {"reason": "provider is down"}),
        ("queue/resume", {"name": "imports"}, {}),
        ("queue/set", {"name": "emails"}, {"at_once": 40, "rate": None, "shares": {"gold": 3, "silver": 1.5}}),
        ("queue/reset", {"name": "emails"}, {}),
    ]


async def test_a_limit_shows_its_busiest_keys_and_who_holds_them(page: Page, site: Site) -> None:
    """Contract: what runs and waits, until when the next is held back; keys with places and holders."""
    with_limits(site)
    await page.goto(f"{site.url}/limits")
    api = page.get_by_label("api", exact=True)
    for text in ("50/s, 10 together", "set by hand", "120 waiting"):
        await expect(api).to_contain_text(text)
    await expect(api).to_contain_text(re.compile("the next begins in 1 min"))
    await expect(page.get_by_label("printer", exact=True)).to_contain_text(re.compile("paused.*out of paper"))
    await page.get_by_role("link", name="customer", exact=True).click()
    await expect(page).to_have_url(f"{site.url}/limits?name=customer")
    rows = page.get_by_label("keys of the limit").get_by_role("row")
    await expect(rows.nth(1)).to_contain_text(re.compile("acme.*27.*the first for .* s.*5 of 5 taken", re.DOTALL))
    await expect(rows.nth(2)).to_contain_text(re.compile("no key.*and 2 more", re.DOTALL))
    await rows.nth(1).get_by_role("link", name="order-3").click()
    await expect(page).to_have_url(f"{site.url}/run?id=order-3&step=price%3A3")


async def test_a_limit_is_paused_resumed_set_and_reset(page: Page, site: Site) -> None:
    with_limits(site)
    site.answers |= {f"limit/{act}": {"limit": limit("api")} for act in ("pause", "resume", "set", "reset")}
    await page.goto(f"{site.url}/limits")
    api, dialog, said = page.get_by_label("api", exact=True), page.get_by_role("dialog"), page.locator(".toast")
    await api.get_by_role("button", name="Pause").click()
    await dialog.get_by_label("Reason").fill("429s")
    await dialog.get_by_role("button", name="Pause").click()
    await expect(said.last).to_contain_text("api: paused")
    await page.get_by_label("printer", exact=True).get_by_role("button", name="Resume").click()
    await dialog.get_by_role("button", name="Resume").click()
    await expect(said.last).to_contain_text("printer: resumed")
    await api.get_by_role("button", name="Set", exact=True).click()
    await dialog.get_by_label("Rate").fill("10/s")
    await dialog.get_by_role("button", name="Set", exact=True).click()
    await expect(said.last).to_contain_text("set, until it is reset")
    await api.get_by_role("button", name="Reset").click()
    await dialog.get_by_role("button", name="Reset").click()
    await expect(said.last).to_contain_text("follows the code again")
    assert site.posts == [
        ("limit/pause", {"name": "api"}, {"reason": "429s"}),
        ("limit/resume", {"name": "printer"}, {}),
        ("limit/set", {"name": "api"}, {"rate": "10/s"}),
        ("limit/reset", {"name": "api"}, {}),
    ]


async def test_without_limits_the_page_says_how_to_declare_one(page: Page, site: Site) -> None:
    await page.goto(f"{site.url}/limits")
    await expect(page.locator(".empty")).to_contain_text("@step(limits=[api])")
