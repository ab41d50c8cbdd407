"""The list of runs in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from anyio import to_thread
from playwright.async_api import Page, expect

from tests.page import samples
from tests.page.fake import STATUSES, Site
from tests.support.examples import count

STREAM = "runs/events"
MASS = count(50_000, few=2_000)
FIRST_ROWS = """
window.firstRows = new Promise(found => {
    const looking = new MutationObserver(() => {
        if (document.querySelector('.row')) {
            looking.disconnect();
            requestAnimationFrame(() => requestAnimationFrame(() => found(performance.now())));
        }
    });
    looking.observe(document, { childList: true, subtree: true });
});
"""
"""The milliseconds after which the first rows are on the screen."""


async def open_runs(page: Page, site: Site, query: str = "") -> None:
    await page.goto(f"{site.url}/{query}")
    await expect(page.locator(".live")).to_have_text("live")


async def shown(page: Page) -> list[str]:
    found: list[str] = await page.locator(".row").evaluate_all("rows => rows.map(row => row.dataset.run)")
    return found


async def test_every_run_says_what_it_does(page: Page, site: Site) -> None:
    """Contract: nobody has to open a run to know whether it needs them."""
    await open_runs(page, site)
    row = page.locator("[data-run='order-48213']")
    await expect(row).to_contain_text(
        re.compile(r"step charge:1 failed, retrying in (1 h|59 min \d+ s), attempt 2 of 5")
    )
    await expect(page.locator("[data-run='order-48209']")).to_contain_text("carrier.example: connection refused")
    await expect(page.locator("[data-run='order-48212']")).to_contain_text("waiting for signal approved, 2 d 23 h left")
    await expect(page.locator(".chip", has_text="failed 1")).to_be_visible()


async def test_one_run_is_enough(page: Page, site: Site) -> None:
    """Promise: an empty store says what to do, and its first run is a list, a count and a bar."""
    site.runs.clear()
    await open_runs(page, site)
    await expect(page.get_by_role("link", name="2 workers")).to_be_visible()
    await expect(page.locator(".empty")).to_contain_text("holdfast start MODULE:APP WORKFLOW name=value")
    site.runs.append(samples.run("first", age=2))
    site.say(STREAM, "reset", {})
    await expect(page.locator(".list-foot")).to_have_text("1 run, no older ones")
    await expect(page.locator(".chip", has_text="All 1")).to_be_visible()
    await expect(page.locator(".histogram rect").first).to_be_visible()


async def test_no_worker_is_said_and_recent_runs_fill_the_histogram(page: Page, site: Site) -> None:
    """Promise: runs that nothing will run are not just "waiting"; a day whose runs are of its last minutes is looked at
    more closely."""
    site.answers["overview"] = {"workflows": 3, "workers": 0, "limits": 0, "schedules": 1}
    spread = site.get("runs/histogram", {})
    assert spread is not None
    site.answers["runs/histogram"] = spread
    for bucket in spread["buckets"][:-1]:
        bucket.update(completed=0, failed=0)
    async with page.expect_request(re.compile("runs/histogram.*since=15m")):
        await open_runs(page, site)
    await expect(page.get_by_role("link", name="no worker")).to_be_visible()
    await expect(page.locator(".notice")).to_contain_text("No worker is alive")
    await expect(page.locator(".notice")).to_contain_text("holdfast worker MODULE:APP")


async def test_the_time_that_is_left_ticks(page: Page, site: Site) -> None:
    await page.clock.set_fixed_time(samples.NOW)
    await open_runs(page, site)
    row = page.locator("[data-run='order-48213']")
    await expect(row).to_contain_text("retrying in 1 h")
    await page.clock.set_fixed_time(samples.NOW + timedelta(seconds=70))
    await expect(row).to_contain_text("retrying in 58 min 50 s")


async def test_filters_are_links_and_back_takes_them_off(page: Page, site: Site) -> None:
    await open_runs(page, site)
    await page.locator(".chip", has_text="failed").click()
    await expect(page).to_have_url(re.compile(r"\?status=failed$"))
    await expect(page.locator(".row")).to_have_count(1)
    assert await shown(page) == ["order-48209"]
    await page.go_back()
    await expect(page.locator(".row")).to_have_count(len(site.runs))
    await page.keyboard.press("/")
    await page.keyboard.type("mail")
    await expect(page.locator(".row")).to_have_count(1)
    await expect(page).to_have_url(re.compile(r"\?q=mail$"))


async def test_nothing_found_says_what_to_do(page: Page, site: Site) -> None:
    await open_runs(page, site, "?q=nonesuch")
    await expect(page.get_by_text("No run matches")).to_be_visible()
    site.runs.clear()
    await page.get_by_role("link", name="Show all runs").click()
    await expect(page.get_by_text("holdfast start MODULE:APP WORKFLOW name=value")).to_be_visible()


async def test_the_list_is_live(page: Page, site: Site) -> None:
    """Contract: what changes changes on the screen, what begins appears on top, what no longer matches goes."""
    await open_runs(page, site, "?status=running")
    done = samples.run("order-48213", age=42, doing=[{"kind": "step", "name": "ship", "attempt": 1}])
    new = samples.run("order-50000", age=-1)
    site.say(STREAM, "runs", {"runs": [done, new], "gone": ["agent-311"]})
    await expect(page.locator(".row").first).to_contain_text("order-50000")
    await expect(page.locator("[data-run='order-48213']")).to_contain_text("step ship")
    assert await shown(page) == ["order-50000", "order-48213", "order-48212"]


async def test_a_stream_that_breaks_goes_on_without_loss_or_double(page: Page, site: Site) -> None:
    """Contract: each message counts once, however often the connection is cut, and the page says that it is."""
    await open_runs(page, site)
    for number in range(12):
        site.say(STREAM, "runs", {"runs": [samples.run(f"live-{number:02d}", age=-1 - number)], "gone": []})
        if number % 4 == 3:
            site.cut()
            await to_thread.run_sync(site.wait_opened, 2 + number // 4)
    await expect(page.locator("[data-run='live-11']")).to_be_visible()
    found = [run for run in await shown(page) if run.startswith("live-")]
    assert found == [f"live-{number:02d}" for number in reversed(range(12))]
    places = [int(after) for _, after in site.resumed]
    assert places == sorted(places)
    assert len(places) == 4


async def test_a_lost_connection_says_since_when(page: Page, site: Site) -> None:
    await open_runs(page, site)
    site.is_down = True
    site.cut()
    await expect(page.locator(".live")).to_contain_text(
        re.compile(r"not connected since \d\d:\d\d:\d\d .*trying again")
    )
    site.is_down = False
    await expect(page.locator(".live")).to_have_text("live")


async def test_too_much_news_loads_the_list_again(page: Page, site: Site) -> None:
    await open_runs(page, site)
    site.runs.insert(0, samples.run("after-the-flood", age=1))
    site.say(STREAM, "reset", {})
    await expect(page.locator(".row").first).to_contain_text("after-the-flood")


async def test_a_stream_that_begins_later_than_the_list_misses_nothing(page: Page, site: Site) -> None:
    """Contract: a run that starts between the list and its stream is shown."""
    await open_runs(page, site)
    site.runs.insert(0, samples.run("in-between", age=1))
    site.say(STREAM, "hello", {})
    await expect(page.locator(".row").first).to_contain_text("in-between")


async def test_counts_that_the_server_had_kept_are_asked_for_again(page: Page, site: Site) -> None:
    """Promise: the server keeps counts for a few seconds, so they may be older than the rows; on a store where nothing
    else happens the page does not show them for good."""
    await page.clock.install()
    none = dict.fromkeys(STATUSES, 0)
    site.answers["runs/counts"] = {"counts": none, "capped": [], "cap": 10_000}
    await open_runs(page, site)
    await expect(page.locator(".chip", has_text="failed 0")).to_be_visible()
    site.answers["runs/counts"] = {"counts": none | {"failed": 1}, "capped": [], "cap": 10_000}
    await page.clock.fast_forward(10_000)
    await expect(page.locator(".chip", has_text="failed 1")).to_be_visible()


@pytest.mark.parametrize("is_reset", [False, True], ids=["of the next page", "of the whole list"])
async def test_what_changes_while_the_list_loads_is_shown(page: Page, site: Site, is_reset: bool) -> None:
    """Promise: an answer that is older than what the page was told does not hide it."""
    site.runs[:] = [samples.run(f"old-{number:03d}", age=60 + number) for number in range(150)]
    late, age, place = ("old-003", 63, "runs") if is_reset else ("old-149", 209, "runs 100")
    if not is_reset:
        site.held.add(place)
    await open_runs(page, site)
    if is_reset:
        await expect(page.locator(".list-foot")).to_be_attached()
        site.held.add(place)
        site.say(STREAM, "reset", {})
    await to_thread.run_sync(site.wait_held, place)
    site.say(STREAM, "runs", {"runs": [samples.run(late, "completed", age=age), samples.run("new", age=1)], "gone": []})
    await expect(page.locator("[data-run=new]")).to_be_visible()
    site.release(place)
    await expect(page.get_by_role("table")).to_have_attribute("aria-rowcount", "152")
    if not is_reset:
        await page.evaluate("window.scrollTo(0, document.documentElement.scrollHeight)")
    await expect(page.locator(f"[data-run={late}]")).to_contain_text("completed")
    assert not is_reset or (await shown(page))[0] == "new"


async def test_keys_walk_the_list(page: Page, site: Site) -> None:
    await open_runs(page, site)
    for key in "jjk":
        await page.keyboard.press(key)
    await expect(page.locator(".row.active")).to_contain_text("mail-99120")
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await expect(page.locator("h1")).to_have_text("order-48213")
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog")).to_contain_text("zoom the timeline")
    await page.keyboard.press("Escape")
    await page.keyboard.press("g")
    await page.keyboard.press("q")
    await expect(page.locator("h1")).to_have_text("Queues")


async def test_a_selection_is_cancelled_after_a_dry_run(page: Page, site: Site) -> None:
    """Contract: first how many, then a question, then the act with the number that was agreed to."""
    await open_runs(page, site)
    await page.get_by_label("select order-48213").click()
    await page.get_by_label("select agent-311").click()
    await page.locator(".picked").get_by_role("button", name="Cancel", exact=True).click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("2 runs take a cancel")
    await dialog.get_by_label("Reason").fill("wrong prices")
    await dialog.get_by_role("button", name="Cancel 2").click()
    await expect(page.locator(".toast")).to_contain_text("cancel: 2 runs")
    (_, _, dry), (_, _, real) = site.posts
    assert dry["dry_run"] is True
    assert real == {
        "verb": "cancel", "ids": ["order-48213", "agent-311"], "filter": None, "reason": "wrong prices",
        "dry_run": False, "expect": 2,
    }  # fmt: skip


async def test_a_brush_over_the_histogram_is_a_filter(page: Page, site: Site) -> None:
    await open_runs(page, site)
    box = await page.locator(".histogram svg").bounding_box()
    assert box
    y = box["y"] + 20
    await page.mouse.move(box["x"] + box["width"] * 0.25, y)
    await page.mouse.down()
    await page.mouse.move(box["x"] + box["width"] * 0.5, y, steps=4)
    await page.mouse.up()
    await expect(page).to_have_url(re.compile(r"since=.*until="))
    since, until = [
        await page.evaluate(f"new URLSearchParams(location.search).get('{name}')") for name in ("since", "until")
    ]
    length = datetime.fromisoformat(until) - datetime.fromisoformat(since)
    assert 20_500 < length.total_seconds() < 22_700
    await page.get_by_label("take off the time filter").click()
    await expect(page).to_have_url(f"{site.url}/")


async def test_views_are_kept_in_the_browser(page: Page, site: Site) -> None:
    await open_runs(page, site, "?status=failed")
    await page.get_by_role("button", name="save view").click()
    await page.get_by_label("Name").fill("broken")
    await page.get_by_role("button", name="Save", exact=True).click()
    await page.goto(site.url)
    await page.get_by_role("link", name="★ broken").click()
    await expect(page).to_have_url(re.compile(r"\?status=failed$"))
    await page.get_by_label("forget the view broken").click()
    await expect(page.get_by_role("link", name="★ broken")).to_have_count(0)


@pytest.mark.examples
async def test_thousands_of_runs_scroll(page: Page, site: Site, record_property: Callable[[str, object], None]) -> None:
    """Contract: however many runs were scrolled through, only those on the screen are elements of the page."""
    site.runs[:] = [samples.run(f"mass-{number:05d}", "completed", age=10 + number) for number in range(MASS)]
    await page.add_init_script(FIRST_ROWS)
    await open_runs(page, site)
    painted = await page.evaluate("window.firstRows")
    await page.evaluate(
        """async (mass) => {
            const table = document.querySelector('[role=table]');
            while (Number(table.getAttribute('aria-rowcount')) <= mass) {
                window.scrollTo(0, document.documentElement.scrollHeight);
                await new Promise(requestAnimationFrame);
            }
        }""",
        MASS,
    )
    await page.evaluate("window.scrollTo(0, document.documentElement.scrollHeight)")
    await expect(page.locator(f"[data-run='mass-{MASS - 1:05d}']")).to_be_visible()
    most, slowest = await page.evaluate(
        """async (mass) => {
            let last = performance.now(), slowest = 0, most = 0;
            for (let place = 0; place < 60; place++) {
                window.scrollTo(0, place * mass * 0.72);
                await new Promise(requestAnimationFrame);
                const now = performance.now();
                slowest = Math.max(slowest, now - last);
                last = now;
                most = Math.max(most, document.querySelectorAll('.row').length);
            }
            return [most, slowest];
        }""",
        MASS,
    )
    record_property(
        "figure",
        f"{MASS:,} runs: the first rows were painted after {painted:.0f} ms, at most {most} rows are elements, "
        f"the slowest frame took {slowest:.0f} ms",
    )
    assert most < 60
    await page.evaluate(f"window.scrollTo(0, {MASS // 2} * 38)")
    await expect(page.locator(f"[data-run='mass-{MASS // 2:05d}']")).to_be_visible()


async def test_errors_are_searched_and_the_page_says_how_far(page: Page, site: Site) -> None:
    """Contract: failed runs whose error has the text; the filter is in the address; empty answers are asked on for a
    while, then the reader decides; nothing that cannot be counted is counted."""
    old = [samples.run(f"old-{at}", "failed", age=400 + at, error="ValueError: no") for at in range(6000)]
    site.runs += [*old, samples.run("deep", "failed", age=9000, error="Deep: refused below")]
    await page.goto(site.url)
    await page.get_by_label("error contains").fill("refused")
    await page.get_by_label("error contains").press("Enter")
    await expect(page).to_have_url(f"{site.url}/?error=refused")
    await expect(page.locator(".row")).to_have_count(1)
    await expect(page.locator(".row")).to_contain_text("connection refused")
    await expect(page.locator(".histogram")).to_have_count(0)
    await page.get_by_role("button", name="Look further").click()
    await expect(page.locator(".list-foot")).to_contain_text("1 of the newest 5,500 failed runs")
    await page.get_by_role("button", name="Look further").click()
    await expect(page.locator("[data-run=deep]")).to_be_visible()
    await expect(page.get_by_role("button", name="Look further")).to_have_count(0)
    await page.goto(f"{site.url}/?error=below")
    await expect(page.locator(".empty")).to_contain_text("Not among the newest 5,000 failed runs")
    await page.get_by_role("button", name="Look further").click()
    await expect(page.locator("[data-run=deep]")).to_be_visible()
