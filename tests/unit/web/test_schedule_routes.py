"""Schedules over HTTP: what is next, what ran, and what people do to them."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest

from holdfast import Schedule
from holdfast.ports.schedules import Move
from tests.unit.web.conftest import PATIENCE, Api, approval, hello

CRON = "0 3 * * *"
DAY = timedelta(days=1)


@pytest.fixture
async def nightly(api: Api) -> Api:
    await api.app.schedule(Schedule("nightly", hello("x"), cron=CRON, tz="Europe/Berlin", overlap="allow"))
    return api


def parsed(texts: list[str]) -> list[datetime]:
    return [datetime.fromisoformat(text) for text in texts]


async def test_a_schedule_says_what_is_next_in_words_and_as_times(nightly: Api) -> None:
    """Promise: list and single answer agree; the next slots are instants in UTC, one after the other."""
    found = await nightly.get("schedules")
    [listed] = found["schedules"]
    assert (found["problems"], found["next"]) == ([], "")
    one = await nightly.get("schedules/nightly")
    assert (one["schedule"], one["runs"]) == (listed, [])
    assert (listed["name"], listed["workflow"], listed["paused"], listed["missed"]) == ("nightly", "hello", False, 0)
    assert "03:00" in listed["in_words"]
    upcoming = parsed(listed["upcoming"])
    assert (len(upcoming), listed["next"]) == (5, listed["upcoming"][0])
    assert upcoming == sorted(upcoming)
    assert upcoming[0] > datetime.now(UTC) - DAY
    assert all(text.endswith("Z") for text in listed["upcoming"])


async def test_a_schedule_is_paused_with_a_reason_and_resumed(nightly: Api, caplog: pytest.LogCaptureFixture) -> None:
    """Promise: a pause has a reason and no next slot; the audit says who did it."""
    with caplog.at_level(logging.INFO, "holdfast.audit"):
        paused = await nightly.post("schedules/nightly/pause", {"reason": "stock-taking"}, role="operate")
        shown = paused["schedule"]
        assert (shown["paused"], shown["reason"], shown["next"]) == (True, "stock-taking", None)
        resumed = await nightly.post("schedules/nightly/resume", role="operate")
    assert (resumed["schedule"]["paused"], resumed["schedule"]["reason"]) == (False, "")
    assert resumed["schedule"]["next"] is not None
    assert [record.getMessage() for record in caplog.records] == [
        "operate: schedules pause (nightly)",
        "operate: schedules resume (nightly)",
    ]


async def test_a_trigger_starts_a_run_that_is_among_its_last(nightly: Api) -> None:
    """Promise: the run is made, and found under its schedule."""
    told = await nightly.post("schedules/nightly/trigger", role="operate")
    await nightly.work(told["run"])
    [run] = (await nightly.get("schedules/nightly"))["runs"]
    assert (run["id"], run["status"], run["workflow"]) == (told["run"], "completed", "hello")


async def test_a_trigger_is_repeated_with_its_id(api: Api) -> None:
    """Promise: an answer that was lost is asked for again with the id; it is the same run, and no conflict with it."""
    await api.app.schedule(Schedule("ask", approval("x"), cron=CRON))
    told = [await api.post("schedules/ask/trigger", {"id": "mail-17"}, role="operate") for _ in range(2)]
    assert [each["run"] for each in told] == ["ask@trigger:mail-17"] * 2
    assert len((await api.get("schedules/ask"))["runs"]) == 1


async def test_a_trigger_beside_an_open_run_is_a_conflict(api: Api) -> None:
    """Promise: `overlap="skip"` starts no second run, and the answer says why."""
    await api.app.schedule(Schedule("ask", approval("x"), cron=CRON))
    await api.post("schedules/ask/trigger")
    answer = await api.ask("POST", "/api/v1/schedules/ask/trigger", {})
    assert (answer.status_code, answer.json()["error"]) == (409, "Conflict")
    assert len((await api.get("schedules/ask"))["runs"]) == 1


async def test_a_backfill_starts_each_slot_once(nightly: Api) -> None:
    """Promise: the same range again gives the same runs, and makes none."""
    body = {"since": "2026-01-01T00:00:00Z", "until": "2026-01-04T00:00:00Z"}
    first = await nightly.post("schedules/nightly/backfill", body)
    assert [slot["at"] for slot in first["slots"]] == [f"2026-01-0{day}T02:00:00Z" for day in (1, 2, 3)]
    again = await nightly.post("schedules/nightly/backfill", body)
    assert [slot["run"] for slot in again["slots"]] == [slot["run"] for slot in first["slots"]]
    assert len((await nightly.get("schedules/nightly"))["runs"]) == 3


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ({"since": "2026-01-01T00:00:00Z", "until": "2026-01-04T00:00:00Z", "most": 2}, 422, "Nothing was started"),
        ({"since": "2026-01-04T00:00:00Z", "until": "2026-01-01T00:00:00Z"}, 422, "since must lie before until"),
        ({"since": "1d", "most": 0}, 422, "between 1 and 1,000"),
        ({"since": "1d", "most": 1001}, 422, "between 1 and 1,000"),
        ({"since": "soon"}, 400, "since"),
        ({"since": "2026-01-01T00:00:00"}, 400, "since"),
        ({}, 422, "since"),
        ({"since": "1d", "odd": 1}, 422, "odd"),
    ],
)
async def test_a_wrong_backfill_starts_nothing(nightly: Api, body: Any, status: int, text: str) -> None:
    """Promise: it is refused before anything is written."""
    answer = await nightly.ask("POST", "/api/v1/schedules/nightly/backfill", body)
    assert (answer.status_code, text in answer.json()["detail"]) == (status, True), answer.text
    assert (await nightly.get("runs"))["runs"] == []


async def test_a_removed_schedule_is_gone_and_its_runs_stay(nightly: Api) -> None:
    run = (await nightly.post("schedules/nightly/trigger"))["run"]
    answer = await nightly.ask("DELETE", "/api/v1/schedules/nightly")
    assert (answer.status_code, answer.content) == (204, b"")
    assert (await nightly.get("schedules"))["schedules"] == []
    assert (await nightly.get(f"runs/{quote(run, safe='')}"))["run"]["id"] == run


async def test_what_is_not_there_is_a_404_for_each_verb(api: Api) -> None:
    """Promise: the answer says what is missing and where to look."""
    for method, path, body in (
        ("GET", "", None),
        ("DELETE", "", None),
        ("POST", "/pause", {}),
        ("POST", "/resume", {}),
        ("POST", "/trigger", {}),
        ("POST", "/backfill", {"since": "1d"}),
    ):
        answer = await api.ask(method, f"/api/v1/schedules/odd{path}", body)
        assert (answer.status_code, answer.json()["error"]) == (404, "ScheduleNotFound")
        assert "no schedule 'odd'" in answer.json()["detail"]


@pytest.mark.parametrize("name", ["a/b", "a?b=c", "a b", "ä/ö", "%2F", "<script>", "pause"])
async def test_any_name_can_be_asked_for(api: Api, name: str) -> None:
    """Promise: as one percent-encoded segment, and in the query."""
    await api.app.schedule(Schedule(name, hello("x"), cron=CRON))
    encoded = quote(name, safe="")
    assert (await api.get(f"schedules/{encoded}"))["schedule"]["name"] == name
    assert (await api.get(f"schedule?name={encoded}"))["schedule"]["name"] == name
    assert (await api.post(f"schedule/pause?name={encoded}"))["schedule"]["paused"]


async def test_a_list_is_read_page_by_page(api: Api) -> None:
    for number in range(5):
        await api.app.schedule(Schedule(f"s{number}", hello("x"), every="1h"))
    found: list[str] = []
    after = ""
    while True:
        page = await api.get(f"schedules?limit=2&after={after}")
        found += [one["name"] for one in page["schedules"]]
        after = page["next"]
        if not after:
            break
    assert found == [f"s{number}" for number in range(5)]


async def test_a_row_that_cannot_be_read_hides_no_other(nightly: Api) -> None:
    """Promise: it is named, with what to do."""
    store = (await nightly.app.client()).store
    await store.move_schedule(Move(name="broken", revision=0, workflow="hello", body=b"{", by_hand=True))
    found = await nightly.get("schedules")
    assert [one["name"] for one in found["schedules"]] == ["nightly"]
    assert "schedule broken: its row cannot be read" in found["problems"][0]


async def test_the_last_run_is_listed_with_its_status(api: Api) -> None:
    """Promise: the list says how the last slot ended."""
    await api.app.schedule(Schedule("pulse", hello("x"), every="1s", times=1))
    listed: Any = {}
    async with asyncio.timeout(PATIENCE), api.app.worker(poll="10ms"):
        while listed.get("last_status") != "completed":
            [listed] = (await api.get("schedules"))["schedules"]
            await asyncio.sleep(0.005)
    assert (listed["fired"], listed["next"], listed["upcoming"]) == (1, None, [])
    [run] = (await api.get("schedules/pulse"))["runs"]
    assert (run["id"], run["status"]) == (listed["last_run"], "completed")


async def test_many_runs_and_removal_need_an_admin(nightly: Api) -> None:
    """Promise: an operator may trigger, not backfill and not remove; nothing is written."""
    body = {"since": "2026-01-01T00:00:00Z", "until": "2026-01-04T00:00:00Z"}
    for method, path, given in (("POST", "/backfill", body), ("DELETE", "", None)):
        answer = await nightly.ask(method, f"/api/v1/schedules/nightly{path}", given, role="operate")
        assert (answer.status_code, answer.json()["error"]) == (403, "Forbidden")
    assert (await nightly.get("schedules/nightly"))["runs"] == []
    assert (await nightly.ask("POST", "/api/v1/schedules/nightly/trigger", {}, role="read")).status_code == 403
