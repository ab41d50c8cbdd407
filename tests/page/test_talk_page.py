"""What a run says while it runs, in a real browser: streams as they come, questions and answers."""

from __future__ import annotations

from playwright.async_api import Page, expect

from tests.page import samples
from tests.page.fake import Site
from tests.page.samples import Json

RUN = "agent-311"


def with_streams(site: Site, **streams: int) -> None:
    of = next(run for run in site.runs if run["id"] == RUN)
    empty: Json = {"timeline": [], "crashes": [], "holders": [], "children": []}
    site.answers["run/story"] = {**samples.story(of), **empty, "streams": streams}
    site.answers["run/stream-ends"] = {"streams": streams}


def part(offset: int, value: object, attempt: int = 1, state: str = "open") -> Json:
    return {"offset": offset, "step": "model", "attempt": attempt, "state": state, "value": value}


async def test_parts_appear_as_they_come_and_none_twice(page: Page, site: Site) -> None:
    """Contract: live; after a lost connection from the last part on; a superseded attempt is marked when the next one
    speaks; the end is said."""
    with_streams(site, tokens=2)
    stream = "run/streams tokens"
    site.say(stream, "part", part(0, "Once "))
    site.say(stream, "part", part(1, "upon"))
    await page.goto(f"{site.url}/run?id={RUN}")
    log = page.get_by_role("log")
    await expect(log).to_contain_text("Once upon")
    await expect(log.locator("[data-state=open]")).to_have_count(1)
    opened = len(site.resumed)
    site.cut()
    site.wait_opened(opened + 2)
    assert (stream, "2") in site.resumed
    site.say(stream, "part", part(2, "There was", attempt=2))
    await expect(log.locator("[data-state=open]")).to_contain_text("There was")
    await expect(log.locator("[data-state=superseded]")).to_contain_text("this attempt failed or was cut off")
    await expect(log.locator("[data-state=superseded] s")).to_have_text("Once upon")
    site.say(stream, "end", {"status": "completed"})
    await expect(page.get_by_label("streams", exact=True)).to_contain_text("3 parts")
    await expect(page.get_by_label("streams", exact=True).get_by_role("status")).to_have_text("ended")


async def test_a_stream_that_begins_later_is_found_and_one_of_several_is_chosen(page: Page, site: Site) -> None:
    """Contract: without a reload; the chosen stream is in the address."""
    with_streams(site)
    await page.goto(f"{site.url}/run?id={RUN}")
    await expect(page.locator(".now")).to_be_visible()
    await expect(page.get_by_role("log")).to_have_count(0)
    site.say("run/streams log", "part", part(0, {"level": "info"}, state="completed"))
    site.say("run/streams tokens", "part", part(0, "<b>hello\u202e", state="completed"))
    site.answers["run/stream-ends"] = {"streams": {"log": 1, "tokens": 1}}
    await expect(page.get_by_role("log")).to_contain_text('{"level":"info"}')
    await page.get_by_label("streams", exact=True).get_by_role("link", name="tokens 1").click()
    await expect(page).to_have_url(f"{site.url}/run?id={RUN}&stream=tokens")
    await expect(page.get_by_role("log")).to_contain_text("<b>hello\\u202e")


async def test_of_a_long_stream_the_end_is_read_first(page: Page, site: Site) -> None:
    """Contract: the last 2,000 parts, and all of them on request."""
    with_streams(site, tokens=5000)
    await page.goto(f"{site.url}/run?id={RUN}")
    await expect(page.get_by_role("log")).to_be_visible()
    site.wait_opened(2)
    assert ("run/streams tokens", "2999") in site.resumed


def asked(number: int, type: str, data: Json) -> Json:
    return samples.turn(number, 20 + number, type, data)


async def test_questions_are_shown_with_their_answers(page: Page, site: Site) -> None:
    """Contract: who asked what, and what the run answered; one without an answer is open; hostile text is text."""
    first = {"message": "q1", "name": "reassign", "sender": "ann", "value": {"to": "<i>bob</i>"}}
    turns = [
        asked(1, "update", first),
        asked(2, "answered", {"message": "q1", "outcome": "answered", "value": "done"}),
        asked(3, "update", {"message": "q2", "name": "reassign", "sender": "eve", "value": {"to": ""}}),
        asked(4, "answered", {"message": "q2", "outcome": "refused", "value": "nobody named"}),
        asked(5, "update", {"message": "q3", "name": "status", "sender": "", "value": None}),
    ]
    site.answers["run/journal"] = {"turns": turns, "next": "", "seq": "0"}
    await page.goto(f"{site.url}/run?id={RUN}")
    items = page.get_by_label("questions").get_by_role("listitem")
    await expect(items).to_have_count(3)
    for place, texts in enumerate(
        (("by ann", "<i>bob</i>", "answered", "done"), ("refused", "nobody named"), ("open",))
    ):
        for text in texts:
            await expect(items.nth(place)).to_contain_text(text)


def with_talk(site: Site) -> None:
    """A run whose second attempt speaks, and which was asked something."""
    with_streams(site, tokens=4, log=1)
    lines = ["Dear customer, your parcel", " was seen in", " Lisbon", " and arrives on Friday."]
    for number, text in enumerate(lines):
        site.say("run/streams tokens", "part", part(number, text, attempt=1 if number < 2 else 2))
    question = {"message": "q1", "name": "reassign", "sender": "ann", "value": {"to": "bob"}}
    answer = {"message": "q1", "outcome": "answered", "value": "done"}
    turns = [asked(1, "update", question), asked(2, "answered", answer)]
    site.answers["run/journal"] = {"turns": turns, "next": "", "seq": "0"}


async def test_a_run_is_asked_and_its_answer_shown(page: Page, site: Site) -> None:
    """Contract: the question carries an id, so that it can be asked again; what the run says is in the dialog."""
    run = next(run for run in site.runs if run["id"] == RUN)
    run["doing"] = {"now": [{"kind": "update", "name": "reassign"}], "more": 0}
    site.answers["run/update"] = {"answer": "done", "id": "x"}
    await page.goto(f"{site.url}/run?id={RUN}")
    await page.get_by_role("button", name="Ask reassign").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("value", exact=True).fill('{"to": "bob"}')
    await dialog.get_by_role("button", name="Ask", exact=True).click()
    await expect(dialog.get_by_label("answer")).to_have_text('"done"')
    ((path, query, body),) = site.posts
    assert (path, query, body["name"], body["value"], len(body["id"])) == (
        "run/update", {"id": RUN}, "reassign", {"to": "bob"}, 36,
    )  # fmt: skip
