"""One run in a real browser: the sentence, the timeline, the journal, a step, and what can be done."""

from __future__ import annotations

import re
from typing import Any

import pytest
from anyio import to_thread
from playwright.async_api import Page, expect

from tests.page import samples
from tests.page.fake import Site

ORDER = "order-48213"


async def open_run(page: Page, site: Site, id: str = ORDER, more: str = "") -> None:
    await page.goto(f"{site.url}/run?id={id}{more}")
    await expect(page.locator("h1")).to_have_text(id)


async def test_the_sentence_comes_first(page: Page, site: Site) -> None:
    await open_run(page, site)
    await expect(page.locator(".now")).to_contain_text(
        re.compile(r"Step charge:1 failed, retrying in .* attempt 2 of 5")
    )
    await expect(page.locator(".facts")).to_contain_text("last held by worker-2")
    await expect(page.locator(".facts")).to_contain_text("progress charged payment-48213")


async def test_a_batch_says_how_far_it_is(page: Page, site: Site) -> None:
    """Promise: not for which of its children it waits. Its items come first."""
    waits = [{"kind": "child", "name": "price", "detail": f"nightly/{number}"} for number in range(4)]
    batch = samples.run("nightly", workflow="holdfast.batch", doing=waits)
    site.runs.append(batch)
    items = {"total": 3000, "completed": 354, "failed": 4, "cancelled": 0, "running": 6}
    site.answers["run/story"] = samples.story(batch) | {"exposed": {"holdfast.items": items}}
    await open_run(page, site, "nightly")
    await expect(page.locator(".now")).to_have_text("354 of 3,000 items completed, 6 running, 4 failed")
    await expect(page.get_by_role("tab", selected=True)).to_have_text("Items")


async def test_a_crash_and_the_take_over_are_in_the_picture(page: Page, site: Site) -> None:
    await open_run(page, site)
    chart = page.locator(".gantt")
    await expect(chart).to_contain_text("worker-2 took over after 7.7 s")
    await expect(chart).to_contain_text(re.compile("died, 2 (steps )?cut off"))
    await expect(chart.locator("[fill='url(#cut)']")).to_have_count(2)
    row = page.locator(".chart a", has=page.locator("[fill='url(#cut)']")).first
    ends, begins = await row.evaluate(  # both at one moment: the picture moves with the time
        """row => {
            const cut = row.querySelector("[fill='url(#cut)']").getBoundingClientRect();
            return [cut.right, row.querySelector('.bar').getBoundingClientRect().left];
        }"""
    )
    assert abs(ends - begins) < 1.5, "the next attempt begins where the take-over ends the first"


async def test_a_step_has_an_address_and_is_shown_whole(page: Page, site: Site) -> None:
    """Contract: what is selected in the timeline is in the address, in the inspector and in the journal."""
    await open_run(page, site)
    await page.locator(".names a", has_text="charge:1").click()
    await expect(page).to_have_url(re.compile(r"step=charge%3A1"))
    inspector = page.get_by_label("step charge:1")
    for text in ("attempt 1 of 5 · failed", "PaymentError: card down", "pay.py", "orders.charge", f"{ORDER}/charge:1"):
        await expect(inspector).to_contain_text(text)
    await expect(page.locator(".journal-row.on")).to_have_count(2)
    await page.reload()
    await expect(page.get_by_label("step charge:1")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page).to_have_url(f"{site.url}/run?id={ORDER}")


async def test_timeline_and_journal_point_at_each_other(page: Page, site: Site) -> None:
    await open_run(page, site)
    await page.locator(".journal-row", has_text="step completed notify:1").hover()
    await expect(page.locator(".names .hit.lit")).to_have_count(1)
    await page.locator(".names a", has_text="charge:1").hover()
    await expect(page.locator(".journal-row.lit")).to_have_count(2)
    await page.locator(".journal-row", has_text="step asked for notify:1").click()
    await expect(page).to_have_url(re.compile(r"step=notify%3A1"))


async def test_hovering_says_what_and_how_long(page: Page, site: Site) -> None:
    await open_run(page, site)
    await page.locator(".chart .bar.is-failed").hover()
    await expect(page.locator(".tip")).to_contain_text("step charge:1: failed")
    await expect(page.locator(".tip")).to_contain_text("1.10 s")
    await expect(page.locator(".tip")).to_contain_text("UTC")


async def test_the_timeline_zooms(page: Page, site: Site) -> None:
    await open_run(page, site)
    bar = page.locator(".chart .bar.is-completed").first
    before = await bar.bounding_box()
    box = await page.locator(".chart").bounding_box()
    assert before
    assert box
    await page.mouse.move(box["x"] + 2, box["y"] + 8)
    await page.mouse.down()
    await page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 8, steps=3)
    await page.mouse.up()
    await expect(page.get_by_role("button", name="whole run")).to_be_enabled()
    after = await bar.bounding_box()
    assert after
    assert 3 < after["width"] / before["width"] < 5
    await page.keyboard.press("0")
    again = await bar.bounding_box()
    assert again
    assert again["width"] < after["width"] / 2  # not exactly as before: the run is open, and its end is now


async def test_what_happens_now_is_drawn_now(page: Page, site: Site) -> None:
    """Contract: a turn changes sentence, timeline and journal together, once, without a reload."""
    await open_run(page, site)
    await expect(page.locator(".live")).to_have_text("live")
    facts = len(samples.FACTS)
    await expect(page.locator(".journal-row")).to_have_count(facts)
    doing = [{"kind": "step", "name": "receipt", "attempt": 1}]
    now = samples.run(ORDER, age=42, epoch=2, turns=24, doing=doing)
    new = samples.entry(20, 41, None, "receipt", "open")
    row: dict[str, Any] = {**samples.turn(99, 41, "step", {"key": "receipt"}), "entries": [new], "run": now}
    for _ in range(2):  # the same row twice, as after a lost answer
        site.say("run/events", "turn", {**row, "seq": "99"})
    await expect(page.locator(".now")).to_have_text("Step receipt")
    await expect(page.locator(".names a", has_text="receipt")).to_have_count(1)
    await expect(page.locator(".journal-row")).to_have_count(facts + 1)
    ended = samples.run(ORDER, "completed", age=42, took=41.5)
    site.runs[1] = ended
    site.say(
        "run/events", "turn", {**samples.turn(100, 41.5, "completed", {}), "entries": [], "run": ended, "seq": "100"}
    )
    site.say("run/events", "end", {"status": "completed"})
    await expect(page.locator(".now")).to_contain_text("Completed after 41.5 s. It survived a crash.")
    await expect(page.locator(".live")).to_have_text("ended")


def step_began(key: str, number: int) -> dict[str, Any]:
    """The turn in which a step begins, as the stream tells it."""
    now = samples.run(ORDER, age=42, turns=20 + number, doing=[{"kind": "step", "name": key, "attempt": 1}])
    begun = samples.entry(number, 41, None, key, "open")
    return {**samples.turn(number, 41, "step", {"key": key}), "entries": [begun], "run": now}


async def test_a_turn_that_comes_before_the_journal_has_loaded_is_in_it(page: Page, site: Site) -> None:
    """Promise: what happens between the question for the journal and its answer is shown, after what came before."""
    site.held.add("run/journal")
    await open_run(page, site)
    await to_thread.run_sync(site.wait_held, "run/journal")
    await expect(page.locator(".live")).to_have_text("live")
    site.say("run/events", "turn", step_began("receipt", 99))
    await expect(page.locator(".now")).to_have_text("Step receipt")
    site.release("run/journal")
    await expect(page.locator(".journal-row")).to_have_count(len(samples.FACTS) + 1)
    await expect(page.locator(".journal-row").last).to_contain_text("step asked for receipt")


async def test_a_journal_that_the_server_did_not_give_is_asked_for_again(page: Page, site: Site) -> None:
    """Promise: a server that is away for a moment while a run is opened leaves no empty journal."""
    async with page.expect_event("requestfailed"):
        await page.route("**/run/journal*", lambda route: route.abort())
        await open_run(page, site)
    await page.unroute("**/run/journal*")
    site.cut()
    await expect(page.locator(".journal-row")).to_have_count(len(samples.FACTS))


async def test_a_turn_that_comes_while_the_story_loads_again_stays(page: Page, site: Site) -> None:
    """Promise: an answer that is older than what the page was told takes nothing from the timeline."""
    await open_run(page, site)
    await expect(page.locator(".live")).to_have_text("live")
    site.held.add("run/story")
    later = samples.story(samples.run(ORDER, turns=23)) | {"exposed": {"progress": "packing"}}
    site.answers["run/story"] = later
    claimed = samples.turn(98, 41, "claimed", {"worker": "worker-2"})
    site.say("run/events", "turn", {**claimed, "entries": [], "run": samples.run(ORDER, turns=23)})
    await to_thread.run_sync(site.wait_held, "run/story")
    site.say("run/events", "turn", step_began("receipt", 99))
    await expect(page.locator(".names a", has_text="receipt")).to_have_count(1)
    site.release("run/story")
    await expect(page.locator(".facts")).to_contain_text("progress packing")
    await expect(page.locator(".now")).to_have_text("Step receipt")
    await expect(page.locator(".names a", has_text="receipt")).to_have_count(1)


ACTS = [
    ("Pause", "pause", {"reason": "because"}),
    ("Cancel", "cancel", {"reason": "because"}),
    ("Kill", "kill", {"reason": "because"}),
]


@pytest.mark.parametrize(("label", "verb", "body"), ACTS)
async def test_an_action_asks_first_and_keeps_the_reason(
    page: Page, site: Site, label: str, verb: str, body: dict[str, Any]
) -> None:
    await open_run(page, site)
    await page.locator(".acts").get_by_role("button", name=label, exact=True).click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Reason").fill("because")
    assert not site.posts
    await dialog.get_by_role("button", name=label, exact=True).click()
    await expect(page.locator(".toast")).to_contain_text("noted")
    assert site.posts == [(f"run/{verb}", {"id": ORDER}, body)]


async def test_resume_and_retry_are_offered_where_they_fit(page: Page, site: Site) -> None:
    await open_run(page, site, "order-47990")
    await page.get_by_role("button", name="Resume").click()
    await page.get_by_role("dialog").get_by_role("button", name="Resume").click()
    await expect(page.locator(".toast")).to_contain_text("noted")
    await open_run(page, site, "order-48209")
    await page.get_by_role("button", name="Retry").click()
    await page.get_by_role("dialog").get_by_role("button", name="Retry").click()
    await expect(page.locator(".toast")).to_contain_text("started order-48209")
    assert [path for path, _, _ in site.posts] == ["run/resume", "run/retry"]


async def test_a_run_that_waits_for_an_answer_can_be_answered(page: Page, site: Site) -> None:
    await open_run(page, site, "order-48212")
    await page.get_by_role("button", name="Answer approved").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("why").fill("looks right")
    await dialog.get_by_role("button", name="Approve").click()
    await expect(page.locator(".toast")).to_contain_text("the run waited for it")
    await page.get_by_role("button", name="Answer approved").click()
    await dialog.get_by_label("value").fill('{"cents": ')
    await expect(dialog).to_contain_text("This is not JSON yet")
    await dialog.get_by_label("value").fill('{"cents": 3}')
    await dialog.get_by_role("button", name="Send").click()
    await expect(page.get_by_role("dialog")).to_have_count(0)
    who = {"id": "order-48212"}
    assert site.posts == [
        ("run/approve", who, {"name": "approved", "approved": True, "why": "looks right"}),
        ("run/signal", who, {"name": "approved", "value": {"cents": 3}}),
    ]


async def test_children_are_a_tree(page: Page, site: Site) -> None:
    grandchild = samples.run(f"{ORDER}/ship/label", workflow="label", parent=f"{ORDER}/ship")
    site.answers["run/children"] = {"runs": [grandchild], "next": "", "seq": "0"}
    await open_run(page, site)
    await page.get_by_role("tab", name="Children").click()
    await page.get_by_label(f"children of {ORDER}/ship").click()
    await expect(page.locator(".tree")).to_contain_text(f"{ORDER}/ship/label")
    await page.locator(".tree").get_by_role("link", name=f"{ORDER}/ship", exact=True).click()
    await expect(page).to_have_url(re.compile("id=order-48213%2Fship"))


async def test_the_plan_of_a_script_is_not_asked_for(page: Page, site: Site) -> None:
    """Contract: it has none, and a question that fails would stand in the browser's console."""
    await open_run(page, site)
    await expect(page.get_by_role("tab")).to_have_count(2)
    await page.get_by_role("tab", name="Children").click()
    await expect(page.get_by_label(f"children of {ORDER}/ship")).to_be_visible()
    assert "run/story" in site.asked
    assert "run/graph" not in site.asked


async def test_a_machine_shows_the_path_it_took(page: Page, site: Site) -> None:
    def node(name: str, state: str, leads_to: list[str], visits: int) -> dict[str, Any]:
        key = name.lower() if visits else None
        return {"name": name, "kind": "state", "position": 0, "needs": [], "leads_to": leads_to, "state": state,
                "key": key, "visits": visits}  # fmt: skip

    site.answers["run/story"] = samples.story(samples.run(ORDER)) | {"plan": "machine"}
    site.answers["run/graph"] = {
        "kind": "machine",
        "nodes": [node("Reserve", "completed", ["Pack", "Refuse"], 2), node("Pack", "open", ["Reserve"], 1),
                  node("Refuse", "not reached", [], 0)],
        "path": ["Reserve", "Pack", "Reserve", "Pack"],
    }  # fmt: skip
    await open_run(page, site)
    await page.get_by_role("tab", name="States").click()
    graph = page.get_by_label("states and the path taken")
    await expect(graph.locator("[data-state=running]")).to_contain_text("is here")
    await expect(graph.locator("[data-state=completed]")).to_contain_text("2 times")
    await expect(graph.locator(".edge.taken")).to_have_count(2)
    await graph.get_by_role("link", name="Pack").click()
    await expect(page).to_have_url(re.compile("step=pack"))


async def test_a_run_that_comes_after_its_link_is_shown(page: Page, site: Site) -> None:
    """Promise: without a reload. `holdfast demo --page` starts its order when the link is opened."""
    await page.goto(f"{site.url}/run?id=order-99")
    await expect(page.locator(".empty")).to_contain_text("Not found")
    site.runs.append(samples.run("order-99", doing=[{"kind": "step", "name": "charge", "attempt": 1}]))
    await expect(page.locator("h1")).to_have_text("order-99")
    await expect(page.locator(".now")).to_contain_text("Step charge")
    await expect(page.locator(".live")).to_have_text("live")


async def test_a_run_that_is_not_there_says_so(page: Page, site: Site) -> None:
    await page.goto(f"{site.url}/run?id=nonesuch")
    await expect(page.locator(".empty")).to_contain_text("Not found")
    await page.get_by_role("link", name="Look for runs that begin like this").click()
    await expect(page).to_have_url(f"{site.url}/?q=nonesuch")
