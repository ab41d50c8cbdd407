"""Runs over HTTP: lists, counts, one run, its story, its journal, and what people do to it."""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest

from holdfast import App
from holdfast.web.run_routes import LARGE
from tests.unit.web.conftest import Api, hello, made_api

REFUSED = (
    "status=odd", "since=soon", "limit=0", "limit=501", "limit=x", "after=odd", "odd=1", "q=a+b", "attribute=x",
    "since=2026-01-01T00:00:00", "workflow=a&workflow=b", "status=%00", "q=%ff",
)  # fmt: skip
HOSTILE = ["a/b", "a?b=c", "a#b", "a+b", "a b", "ä/ö", "%2F", "a%b", 'a"b', "<script>", "story", "a&id=b"]


async def started(api: Api, workflow: str, id: str, **input: object) -> None:
    await api.post("runs", {"workflow": workflow, "input": input, "id": id}, status=201)


@pytest.mark.parametrize("name", HOSTILE)
async def test_any_id_can_be_asked_for(api: Api, name: str) -> None:
    """Promise: as one percent-encoded segment, and in the query."""
    await started(api, "hello", name, name="x")
    encoded = quote(name, safe="")
    assert (await api.get(f"runs/{encoded}"))["run"]["id"] == name
    assert (await api.get(f"run?id={encoded}"))["run"]["id"] == name
    assert (await api.get(f"run/story?id={encoded}"))["run"]["id"] == name
    paused = await api.post(f"runs/{encoded}/pause", {"reason": "no"})
    assert (paused["run"]["status"], paused["run"]["id"]) == ("paused", name)
    assert (await api.post(f"run/resume?id={encoded}"))["run"]["status"] != "paused"


async def test_a_start_is_checked_by_the_workflow(api: Api) -> None:
    """Promise: what does not fit is refused before anything is written, and says where."""
    for body, error in (
        ({"workflow": "hello", "input": {"name": 1}}, "InvalidArguments"),
        ({"workflow": "hello", "input": {"nam": "x"}}, "InvalidArguments"),
        ({"workflow": "hello", "input": {"name": "x"}, "id": ""}, "InvalidId"),
        ({"workflow": "hello", "input": {"name": "x"}, "delay": "soon"}, "InvalidDuration"),
        ({"workflow": "hello", "input": {"name": "x"}, "unknown": 1}, "InvalidInput"),
        ({"workflow": 1}, "InvalidInput"),
        ({}, "InvalidInput"),
    ):
        answer = await api.ask("POST", "/api/v1/runs", body)
        assert (answer.status_code, answer.json()["error"]) == (422, error), answer.text
    answer = await api.ask("POST", "/api/v1/runs", {"workflow": "helo"})
    assert (answer.status_code, "Did you mean hello?" in answer.json()["detail"]) == (404, True)
    assert (await api.get("runs"))["runs"] == []


async def test_a_run_that_waits_is_held_by_no_worker(api: Api) -> None:
    """Promise: it has its last worker, which does not hold it; nor does the story say so."""
    await started(api, "approval", "r", name="ann")
    await api.until_waiting("r", "signal approved")
    told = await api.get("runs/r/story")
    [holder] = told["holders"]
    assert (told["run"]["worker"], told["run"]["is_held"]) == (holder["worker"], False)
    assert (holder["end"], holder["until"]) == ("released", holder["last_seen"])


async def test_the_same_start_again_is_the_same_run(api: Api) -> None:
    body = {"workflow": "hello", "input": {"name": "x"}, "id": "r", "attributes": {"tier": "gold"}}
    assert (await api.post("runs", body, status=201))["outcome"] == "created"
    again = await api.post("runs", body, status=200)
    assert (again["outcome"], again["run"]["id"]) == ("existing", "r")
    other = await api.ask("POST", "/api/v1/runs", {"workflow": "fails", "input": {"text": "x"}, "id": "r"})
    assert (other.status_code, other.json()["error"]) == (409, "Conflict")


async def test_a_unique_value_gives_its_open_run(api: Api) -> None:
    """Promise: `unique` and `if_exists` are as for `app.start`; a conflict names the run that is in the way."""
    body = {"workflow": "approval", "input": {"name": "x"}, "unique": "x"}
    run = (await api.post("runs", body, status=201))["run"]["id"]
    again = await api.post("runs", body, status=200)
    assert (again["outcome"], again["run"]["id"]) == ("existing", run)
    refused = await api.ask("POST", "/api/v1/runs", {**body, "if_exists": "reject"})
    assert (refused.status_code, refused.json()["error"], refused.json()["run"]) == (409, "Conflict", run)
    wrong = await api.ask("POST", "/api/v1/runs", {**body, "unique": ""})
    assert (wrong.status_code, "unique" in wrong.json()["detail"]) == (422, True)
    new = await api.post("runs", {**body, "if_exists": "replace"}, status=201)
    assert (await api.get(f"runs/{run}"))["run"]["status"] == "cancelled"
    assert (await api.post("runs", body, status=200))["run"]["id"] == new["run"]["id"]


async def test_a_burst_is_one_run(api: Api) -> None:
    """Promise: `debounce` and `max_wait` are as for `app.start`."""
    body = {"workflow": "approval", "input": {"name": "x"}, "unique": "x", "debounce": "1h", "max_wait": "2h"}
    run = (await api.post("runs", body, status=201))["run"]["id"]
    again = await api.post("runs", {**body, "input": {"name": "y"}}, status=200)
    assert (again["outcome"], again["run"]["id"]) == ("existing", run)
    wrong = await api.ask("POST", "/api/v1/runs", {**body, "unique": None})
    assert (wrong.status_code, "unique" in wrong.json()["detail"]) == (422, True)


async def test_a_start_brings_its_signal(api: Api) -> None:
    """Promise: the run has the signal from the beginning, a repeated start with its id sends it once, and one that the
    workflow does not take starts nothing."""
    signal = {"name": "approved", "value": True, "id": "m-1"}
    body = {"workflow": "approval", "input": {"name": "x"}, "id": "r", "signal": signal}
    for status in (201, 200):
        await api.post("runs", body, status=status)
    run = await api.app.get("r")
    assert [(message.id, message.name) for message in await run.messages()] == [("m-1", "approved")]
    wrong = await api.ask("POST", "/api/v1/runs", {**body, "id": "never", "signal": {"name": "approved", "value": "?"}})
    assert (wrong.status_code, "Nothing was started" in wrong.json()["detail"]) == (422, True)
    assert (await api.ask("GET", "/api/v1/runs/never")).status_code == 404


async def test_an_id_is_for_one_message(api: Api) -> None:
    """Promise: another value under the id of a signal, an approval or a start's signal is a 409 that says what next;
    the document knows it."""
    await started(api, "approval", "r", name="x")
    await api.post("runs/r/pause", {})
    sent = {"name": "approved", "value": True, "id": "m1"}
    for _ in range(2):
        await api.post("runs/r/signal", sent)
    start = {"workflow": "approval", "input": {"name": "x"}, "id": "r"}
    document = (await api.get("openapi.json"))["paths"]
    for path, route, body in (
        ("runs/r/signal", "runs/{id}/signal", {**sent, "value": False}),
        ("runs/r/approve", "runs/{id}/approve", {"name": "approved", "approved": False, "id": "m1"}),
        ("runs", "runs", {**start, "signal": {**sent, "value": False}}),
    ):
        answer = await api.ask("POST", f"/api/v1/{path}", body)
        assert (answer.status_code, answer.json()["error"]) == (409, "Conflict"), answer.text
        assert "id 'm1' was used for signal approved with another value" in answer.json()["detail"]
        assert "Use a different id" in answer.json()["detail"]
        assert "409" in document[f"/api/v1/{route}"]["post"]["responses"]
    assert [message["value"] for message in (await api.get("runs/r/messages"))["messages"]] == ["true"]


async def test_lists_are_filtered_and_paged(api: Api) -> None:
    """Promise: each filter of the command line, time ranges and words; cursors go through all of it once."""
    for number in range(7):
        attributes = {"tier": "gold" if number % 2 else "tin"}
        body = {"workflow": "hello", "input": {"name": "x"}, "id": f"order-{number}", "attributes": attributes}
        await api.post("runs", body, status=201)
    await started(api, "payment", "pay-1")
    found: list[str] = []
    after = ""
    while True:
        page = await api.get(f"runs?limit=3&after={quote(after)}")
        found += [run["id"] for run in page["runs"]]
        after = page["next"]
        if not after:
            break
    assert found == ["pay-1", *(f"order-{number}" for number in reversed(range(7)))]

    async def ids(query: str) -> set[str]:
        return {run["id"] for run in (await api.get(f"runs?{query}"))["runs"]}

    assert await ids("workflow=payment") == {"pay-1"}
    assert await ids("attribute=tier%3Dgold") == {"order-1", "order-3", "order-5"}
    assert await ids("q=order-1") == {"order-1"}
    assert await ids("q=tier%3Dgold+order-3") == {"order-3"}
    assert await ids("status=completed&status=failed") == set()
    assert len(await ids("since=1h")) == 8
    assert await ids("until=1h") == set()
    later = quote((datetime.now(UTC) + timedelta(hours=1)).isoformat())
    assert await ids(f"since={later}") == set()
    for query in REFUSED:
        answer = await api.ask("GET", f"/api/v1/runs?{query}")
        assert answer.status_code in {400, 422}, (query, answer.text)


async def test_counts_and_the_histogram(api: Api) -> None:
    """Promise: by status, over the same filters; empty buckets are there."""
    await started(api, "hello", "a", name="x")
    await started(api, "fails", "b", text="x")
    await api.work("a", "b")
    await started(api, "payment", "c")
    told = await api.get("runs/counts?since=1h")
    assert told["counts"] == {"pending": 1, "running": 0, "paused": 0, "completed": 1, "failed": 1, "cancelled": 0}
    assert (told["capped"], told["cap"]) == ([], 10_000)
    assert (await api.get("runs/counts?workflow=fails"))["counts"]["failed"] == 1
    drawn = await api.get("runs/histogram?since=1h&buckets=4")
    assert len(drawn["buckets"]) == 4
    assert sum(bucket["failed"] for bucket in drawn["buckets"]) == 1
    assert drawn["width_seconds"] == pytest.approx(900)
    assert (await api.ask("GET", "/api/v1/runs/histogram?since=1h&until=2h")).status_code == 400


async def test_a_failed_run_says_why(api: Api) -> None:
    """Promise: the error's first line in lists, the whole with its traceback in the run, each attempt in its step."""
    await started(api, "fails", "r", text="no\nmoney")
    await api.work("r")
    [run] = (await api.get("runs?status=failed"))["runs"]
    assert run["error"].startswith("StepFailed: step breaks failed after 2 attempts: ValueError: no money")
    told = await api.get("runs/r/story")
    assert "Traceback" in told["failure"]["traceback"]
    assert [entry["outcome"] for entry in told["timeline"] if entry["kind"] == "step"] == ["failed", "failed"]
    assert [holder["end"] for holder in told["holders"]] == ["ended"]
    assert told["plan"] == ""
    assert (await api.ask("GET", "/api/v1/runs/r/graph")).status_code == 404
    step = await api.get("runs/r/steps/breaks")
    assert (step["input"], step["outcome"]) == ({"text": "no\nmoney"}, "failed")
    assert [attempt["attempt"] for attempt in step["attempts"]] == [1, 2]
    assert all("ValueError" in attempt["failure"]["type"] for attempt in step["attempts"])
    assert (await api.ask("GET", "/api/v1/runs/r/steps/nothing")).status_code == 404


async def test_a_journal_is_read_in_pages(api: Api) -> None:
    await started(api, "approval", "r", name="ann")
    await api.until_waiting("r", "waiting for signal")
    whole = await api.get("runs/r/journal")
    pieces, after = [], "0"
    while after:
        page = await api.get(f"runs/r/journal?limit=1&after={after}")
        pieces += page["turns"]
        after = page["next"]
    assert pieces == whole["turns"]
    assert whole["turns"][0]["events"][0]["type"] == "started"
    entries = [entry for turn in whole["turns"] for entry in (turn, *turn["events"])]
    assert {(entry["run"], entry["root"]) for entry in entries} == {("r", "r")}
    assert isinstance(whole["seq"], str)
    assert (await api.get("runs/r/values"))["values"] == {"progress": "asked"}


async def test_large_values_are_fetched_by_themselves(api: Api) -> None:
    """Promise: an answer stays small; the whole value and the blob behind it are there, through their run only."""
    await started(api, "hello", "r", name="x", size=2 * LARGE)
    await started(api, "hello", "other", name="x")
    await api.work("r", "other")
    told = await api.get("runs/r")
    assert told["result"]["$large"] is True
    assert told["result"]["size"] > 2 * LARGE
    assert len(await api.get("runs/r/value?of=result")) > 2 * LARGE
    turns = (await api.get("runs/r/journal"))["turns"]
    [blob] = [event["data"]["blob"] for turn in turns for event in turn["events"] if event["data"].get("blob")]
    assert len(await api.get(f"runs/r/blob?name={blob}")) > 2 * LARGE
    assert (await api.ask("GET", f"/api/v1/runs/other/blob?name={blob}")).status_code == 404
    assert (await api.ask("GET", f"/api/v1/runs/r/blob?name={blob}&raw=1", role="operate")).status_code == 403
    raw = await api.ask("GET", f"/api/v1/runs/r/blob?name={blob}&raw=1")
    assert raw.headers["content-disposition"].startswith("attachment")
    assert (await api.ask("GET", "/api/v1/runs/r/blob?name=../x")).status_code == 404


async def test_acts_say_who_did_them(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    """Promise: in the journal of the run, and in the log `holdfast.audit`."""
    caplog.set_level(logging.INFO, "holdfast.audit")
    await started(api, "approval", "r", name="ann")
    await api.post("runs/r/pause", {"reason": "why"}, role="operate")
    await api.post("runs/r/resume", role="operate")
    await api.until_waiting("r", "waiting for signal")
    told = await api.post("runs/r/signal", {"name": "other", "value": 1}, role="operate")
    assert told["awaited"] is False
    sent = await api.post("runs/r/approve", {"name": "approved", "why": "paid"}, role="operate")
    assert sent["awaited"] is True
    text = json.dumps((await api.get("runs/r/journal"))["turns"])
    assert '"actor": "operate"' in text
    await api.post("runs/r/kill", {"reason": "enough"})
    turns = (await api.get("runs/r/journal"))["turns"]
    assert turns[0]["events"][0]["data"]["actor"] == "admin"
    assert turns[-1]["events"][-1]["data"]["actor"] == "admin"
    again = await api.post("runs/r/retry", {"id": "r2"}, status=201)
    assert (again["retried_from"], again["run"]["id"]) == ("r", "r2")
    said = [(record.__dict__["actor"], record.__dict__["verb"]) for record in caplog.records]
    assert said == [("admin", "start"), ("operate", "pause"), ("operate", "resume"), ("operate", "signal"),
                    ("operate", "approve"), ("admin", "kill"), ("admin", "retry")]  # fmt: skip


async def test_an_approval_carries_who_and_why(api: Api) -> None:
    """Promise: the run receives the decision, who made it and why."""
    await started(api, "approval", "r", name="ann")
    await api.post("runs/r/approve", {"name": "decided", "approved": False, "why": "too dear"}, role="operate")
    await api.until_waiting("r", "waiting for signal approved")
    await api.post("runs/r/signal", {"name": "approved", "value": True})
    await api.work("r")
    events = [event for turn in (await api.get("runs/r/journal"))["turns"] for event in turn["events"]]
    [told] = [x["data"] for x in events if x["type"] == "signal" and x["data"]["name"] == "decided"]
    assert told["value"] == {"approved": False, "by": "operate", "why": "too dear"}
    assert told["sender"] == "operate"


async def test_what_is_over_is_a_conflict(api: Api) -> None:
    await started(api, "hello", "r", name="x")
    await api.work("r")
    for verb, body in (("kill", {}), ("signal", {"name": "x"}), ("resume", {})):
        answer = await api.ask("POST", f"/api/v1/runs/r/{verb}", body)
        assert (answer.status_code, answer.json()["error"]) == (409, "RunFinished")
    missing = await api.ask("POST", "/api/v1/runs/rr/kill", {})
    assert (missing.status_code, "Did you mean r?" in missing.json()["detail"]) == (404, True)


async def test_a_run_is_deleted_when_it_is_over(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    """Promise: an admin deletes an ended run, and the audit log says who; an open one is a conflict that says why."""
    caplog.set_level(logging.INFO, "holdfast.audit")
    await started(api, "hello", "r", name="x")
    refused = await api.ask("DELETE", "/api/v1/runs/r")
    assert (refused.status_code, refused.json()["error"]) == (409, "RunOpen")
    await api.work("r")
    assert (await api.ask("DELETE", "/api/v1/runs/r", role="operate")).status_code == 403
    gone = await api.ask("DELETE", "/api/v1/runs/r")
    assert (gone.status_code, gone.json()) == (200, {"deleted": "r", "runs": 1})
    for method in ("GET", "DELETE"):
        assert (await api.ask(method, "/api/v1/runs/r")).status_code == 404
    said = [(record.__dict__["actor"], record.__dict__["verb"]) for record in caplog.records]
    assert said == [("admin", "start"), ("admin", "delete")]


async def test_values_are_redacted_when_a_run_is_over(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    """Promise: an admin takes a value out of an ended run; the answer says where it was, the detail and the audit log
    say who did it, without the value; an open run, a wrong path and a retry of what is gone are typed problems."""
    caplog.set_level(logging.INFO, "holdfast.audit")
    await started(api, "hello", "r", name="bob@example.org")
    path, body = "/api/v1/runs/r/redact", {"paths": ["input.name"], "reason": "bob@example.org asked"}
    refused = await api.ask("POST", path, body)
    assert (refused.status_code, refused.json()["error"]) == (409, "RunOpen")
    await api.work("r")
    assert (await api.ask("POST", path, body, role="operate")).status_code == 403
    wrong = await api.ask("POST", path, {"paths": ["input.nam"]})
    assert (wrong.status_code, "Did you mean input.name" in wrong.json()["detail"]) == (422, True)
    dry = await api.post("runs/r/redact", {**body, "dry_run": True})
    assert (await api.get("runs/r"))["redacted"] == []
    done = (await api.post("runs/r/redact", body))["redaction"]
    assert (
        done["changed"] == dry["redaction"]["changed"] == ["input", "steps.greet.input", "steps.greet.result", "result"]
    )
    shown = await api.ask("GET", "/api/v1/runs/r/story")
    assert "bob@" not in shown.text
    assert "(by admin)" in shown.json()["redacted"][0]
    again = await api.ask("POST", "/api/v1/runs/r/retry", {})
    assert (again.status_code, again.json()["error"]) == (409, "RunRedacted")
    said = [(record.__dict__["actor"], record.__dict__["verb"]) for record in caplog.records]
    assert said == [("admin", "start"), ("admin", "redact")]
    assert "bob@" not in caplog.text


async def test_publish_names_who_was_woken(api: Api) -> None:
    await started(api, "payment", "p")
    await api.until_waiting("p", "waiting for topic paid")
    assert (await api.post("topics/publish", {"topic": "paid", "value": "42"}))["woken"] == ["p"]
    await api.work("p")
    assert (await api.get("runs/p"))["result"] == "42"


async def test_a_bulk_act_counts_first(api: Api) -> None:
    """Promise: a dry run changes nothing; the act needs the count of the dry run; what fails is named."""
    for number in range(30):
        await started(api, "payment", f"p{number}")
    await started(api, "hello", "h", name="x")
    dry = await api.post("runs/bulk", {"verb": "cancel", "filter": {"workflow": "payment"}})
    assert (dry["dry_run"], dry["matched"], len(dry["sample"])) == (True, 30, 20)
    real = {"verb": "cancel", "filter": {"workflow": "payment"}, "dry_run": False}
    wrong = await api.ask("POST", "/api/v1/runs/bulk", {**real, "expect": 29})
    assert wrong.status_code == 409
    assert (await api.get("runs/counts?workflow=payment"))["counts"]["cancelled"] == 0
    done = await api.ask("POST", "/api/v1/runs/bulk", {**real, "expect": 30})
    assert done.headers["content-type"].startswith("text/event-stream")
    last = [line for line in done.text.splitlines() if line.startswith("data: ")][-1]
    assert json.loads(last.removeprefix("data: ")) == {"done": 30, "total": 30, "problems": []}
    assert (await api.get("runs?status=pending"))["runs"][0]["id"] == "h"
    kill = {"verb": "kill", "ids": ["p1", "h"], "dry_run": False, "expect": 2}
    ended = await api.ask("POST", "/api/v1/runs/bulk", kill)
    assert '"done":2' in ended.text
    for body in (
        {"verb": "kill"},
        {"verb": "kill", "ids": [], "filter": {}},
        {"verb": "kill", "ids": ["a"], "limit": 0},
        {"verb": "odd", "ids": []},
    ):
        assert (await api.ask("POST", "/api/v1/runs/bulk", body)).status_code == 422


async def test_a_batch_and_its_items(api: Api) -> None:
    batch = await api.app.start_batch(hello, ["a", "b", "c"], id="names")
    await api.work("names")
    assert await batch.status()
    [one] = (await api.get("batches"))["batches"]
    assert (one["id"], one["workflow"], one["counts"]["completed"]) == ("names", "hello", 3)
    assert (await api.get("batches/names"))["run"]["status"] == "completed"
    items = await api.get("batches/names/items?limit=2")
    assert [(item["index"], item["result"]) for item in items["items"]] == [(0, "hello a"), (1, "hello b")]
    rest = await api.get(f"batches/names/items?after={items['next']}")
    assert ([item["index"] for item in rest["items"]], rest["next"]) == ([2], "")
    assert (await api.get("batches/names/items?status=failed"))["items"] == []
    await started(api, "hello", "r", name="x")
    assert (await api.ask("GET", "/api/v1/batches/r")).status_code == 404


async def test_the_fleet(api: Api) -> None:
    await started(api, "fails", "r", text="x")
    await api.work("r")
    entry = next(one for one in (await api.get("workflows"))["workflows"] if one["name"] == "hello")
    assert entry["input"]["properties"]["name"] == {"type": "string"}
    assert entry["in_flight"][0]["count"] == 0
    stats = await api.get("workflows/stats?workflow=fails")
    assert (stats["ended"], stats["failed"], stats["success_rate"]) == (1, 1, 0)
    assert (await api.get("workers?all=true"))["workers"]
    declared = len((await api.get("workflows"))["workflows"])
    assert await api.get("overview") == {"workflows": declared, "workers": 0, "limits": 0, "schedules": 0}
    assert [queue["name"] for queue in (await api.get("queues"))["queues"]] == ["default"]
    assert (await api.get("doctor"))["findings"]
    assert "total" in await api.get("space")
    told = await api.ask("GET", "/metrics")
    assert told.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'holdfast_runs{status="failed"} 1' in told.text


async def test_answers_that_cost_much_are_shared(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: a hundred readers of the counts ask the store once."""
    store = (await api.app.client()).store
    asked = 0
    tally = store.tally

    async def counting(*args: object, **options: object) -> object:
        nonlocal asked
        asked += 1
        return await tally(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "tally", counting)
    await asyncio.gather(*(api.get("runs/counts") for _ in range(100)))
    assert asked == 1


async def test_a_server_without_an_app_starts_nothing() -> None:
    async with App("memory://") as app:
        api = made_api(app)
        async with api.http:
            assert (await api.get("session"))["has_app"] is False
            answer = await api.ask("POST", "/api/v1/runs", {"workflow": "hello"})
            assert (answer.status_code, answer.json()["error"]) == (404, "UnknownWorkflow")


@pytest.mark.parametrize("body", [b"{", b"[]", b"nul", b"\xff", b'"x"', b"{" * 100_000, b'{"workflow": "\\ud800"}'])
async def test_what_is_no_json_is_refused(api: Api, body: bytes) -> None:
    head = {"authorization": f"Bearer {api.secrets['admin']}", "content-type": "application/json"}
    answer = await api.http.post("/api/v1/runs", content=body, headers=head)
    assert answer.status_code in {400, 422}, answer.text


async def test_a_body_that_is_too_large_is_refused(api: Api) -> None:
    head = {"authorization": f"Bearer {api.secrets['admin']}", "content-type": "application/json"}
    answer = await api.http.post("/api/v1/runs", content=b" " * (16 * 1024 * 1024 + 1), headers=head)
    assert answer.status_code == 413


async def test_a_signal_of_the_wrong_type_is_refused(api: Api) -> None:
    """Promise: by the type that the workflow waits for; and a stored message can be listed, replaced and dropped."""
    await started(api, "approval", "r", name="x")
    answer = await api.ask("POST", "/api/v1/runs/r/signal", {"name": "approved", "value": "yes please"})
    assert (answer.status_code, answer.json()["error"]) == (422, "InvalidInput"), answer.text
    assert (await api.get("runs/r/messages"))["messages"] == []
    await api.post("runs/r/pause", {})
    await api.post("runs/r/signal", {"name": "approved", "value": True, "id": "m1"})
    await api.post("runs/r/signal", {"name": "approved", "value": True, "id": "m2"})
    wrong = await api.ask("POST", "/api/v1/runs/r/replace", {"message": "m1", "value": 7})
    assert wrong.status_code == 422
    assert (await api.post("runs/r/replace", {"message": "m1", "value": False, "reason": "typo"}))["message"] == "m1"
    assert (await api.post("runs/r/drop", {"message": 2}))["told_again"] is False
    [replaced, dropped] = (await api.get("runs/r/messages"))["messages"]
    assert (replaced["value"], replaced["kind"], dropped["kind"]) == ("false", "signal", "dropped")
