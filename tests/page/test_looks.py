"""What the page looks like: axe finds nothing, in light and in dark, and the pictures of the docs come from here.

`HOLDFAST_UPDATE_SNAPSHOTS=1 .venv/bin/pytest tests/page/test_looks.py` renews docs/images. The pictures of the other
pages are then in the tests' temporary folders, to be looked at.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.async_api import Browser, Page, expect

from tests.page.bundle import MODULES, ROOT
from tests.page.fake import Site
from tests.page.test_gates_page import with_limits, with_queues
from tests.page.test_other_pages import with_batch, with_manager, with_workers, with_workflows
from tests.page.test_schedules_page import with_schedules
from tests.page.test_talk_page import with_talk

IMAGES = ROOT / "docs" / "images"
UPDATES = bool(os.environ.get("HOLDFAST_UPDATE_SNAPSHOTS"))
MOST_BYTES = 200_000
PLACES = {
    "runs": ("/", "Runs"),
    "run": ("/run?id=order-48213&step=charge%3A1", "order-48213"),
    "talk": ("/run?id=agent-311", "agent-311"),
    "workflows": ("/workflows", "Workflows"),
    "workflow": ("/workflow?name=parcel", "parcel"),
    "workers": ("/workers", "Workers"),
    "queues": ("/queues", "Queues"),
    "queue": ("/queues?name=emails", "emails"),
    "limits": ("/limits", "Limits"),
    "limit": ("/limits?name=customer", "customer"),
    "schedules": ("/schedules", "Schedules"),
    "schedule": ("/schedules?name=nightly", "nightly"),
    "batches": ("/batches", "Batches"),
    "batch": ("/batch?id=nightly", "nightly"),
}
"""Each page: its address, and its heading."""
KEPT = {"runs-light", "runs-dark", "runs-phone"}
"""The pictures of these that the docs show; those of a run are of a real crash, see test_live.py."""

SIZES = {"light": (1360, 760), "dark": (1360, 760), "phone": (420, 800)}


@pytest.fixture
def full_site(site: Site) -> Site:
    for fill in (with_workflows, with_workers, with_manager, with_queues, with_limits, with_batch, with_schedules):
        fill(site)
    return site


async def settle(page: Page, address: str, heading: str) -> None:
    """Goes there as a link of the page does, without loading it again, and waits until it is drawn."""
    await page.evaluate(
        "address => { history.pushState(null, '', address); dispatchEvent(new PopStateEvent('popstate')); }", address
    )
    await expect(page.locator("h1")).to_have_text(heading)
    await expect(page.locator(".live")).to_have_text("live")
    await expect(page.locator(".card").first).to_be_visible()
    if "/run?" in address:
        await expect(page.locator(".journal-row").first).to_be_visible()
    if "step=" in address:
        await expect(page.get_by_text("idempotency key")).to_be_visible()


async def load_axe(page: Page) -> None:
    """Axe, until the page is loaded again."""
    await page.evaluate((MODULES / "axe-core" / "axe.min.js").read_text(encoding="utf-8"))


async def complaints(page: Page, **options: Any) -> list[str]:
    """What axe finds; see the options of `axe.run`."""
    found = await page.evaluate("options => axe.run(document, options)", {"resultTypes": ["violations"], **options})
    return [
        f"{one['impact']} {one['id']}: {node['target']} {node['failureSummary']}"
        for one in found["violations"]
        for node in one["nodes"]
    ]


RULES: dict[str, dict[str, Any]] = {
    "light": {},
    "dark": {"runOnly": ["color-contrast"]},
    "phone": {"rules": {"color-contrast": {"enabled": False}}},
}
"""In dark only the colours differ, on a phone only the layout."""


@pytest.mark.parametrize("look", SIZES)
async def test_axe_finds_nothing(browser: Browser, full_site: Site, look: str, tmp_path: Path) -> None:
    """Contract: every page, in light, in dark and on a phone."""
    width, height = SIZES[look]
    scheme: Literal["dark", "light"] = "dark" if look == "dark" else "light"
    context = await browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce", bypass_csp=True
    )
    page = await context.new_page()
    await page.goto(full_site.url)
    await load_axe(page)
    found: list[str] = []
    for name, (place, heading) in PLACES.items():
        if name == "talk":
            with_talk(full_site)
        shown = place.partition("&")[0] if look == "phone" else place  # the inspector would be a sheet over it
        await settle(page, shown, heading)
        found += [f"{name}: {text}" for text in await complaints(page, **RULES[look])]
        if UPDATES:
            where = (IMAGES if f"{name}-{look}" in KEPT else tmp_path) / f"{name}-{look}.png"
            await page.screenshot(path=where)
            assert where.stat().st_size <= MOST_BYTES
        for path in ("run/story", "run/journal") if name == "talk" else ():
            del full_site.answers[path]
        if look == "phone":
            wide = await page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
            assert wide <= 0, f"{name} is {wide} pixels wider than a phone"
        if look == "phone" and "/run?" in place:
            whole, seen = await page.locator(".journal").evaluate("box => [box.scrollHeight, box.clientHeight]")
            assert seen >= min(whole, 300), f"of the journal of {name}, {seen} of {whole} pixels can be seen"
    await context.close()
    assert not found, "\n".join(found)


async def test_axe_finds_nothing_in_front_of_the_page(page: Page, site: Site) -> None:
    site.needs_login = True
    await page.goto(site.url)
    await expect(page.get_by_label("Token")).to_be_visible()
    await load_axe(page)
    assert not await complaints(page)
    site.needs_login = False
    await page.goto(f"{site.url}/run?id=order-48212")
    await page.get_by_role("button", name="Answer approved").click()
    await load_axe(page)
    assert not await complaints(page)


async def test_dark_and_light_are_remembered(page: Page, site: Site) -> None:
    await page.goto(site.url)
    await page.get_by_role("button", name="switch to dark").click()
    await page.reload()
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    ink, paper = await page.evaluate(
        "['color', 'backgroundColor'].map(name => getComputedStyle(document.body)[name].match(/\\d+/g).map(Number))"
    )
    assert sum(ink) > 3 * sum(paper)
