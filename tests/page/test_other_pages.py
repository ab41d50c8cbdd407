"""Workflows, workers, queues and batches in a real browser, and the form that starts a run."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from tests.page import samples
from tests.page.fake import Site
from tests.page.samples import Json, instant

SCHEMA: Json = {
    "type": "object",
    "properties": {
        "order": {"$ref": "#/$defs/Order"},
        "speed": {"enum": ["slow", "fast"]},
        "gift": {"type": "boolean", "default": False},
    },
    "required": ["order", "speed"],
    "$defs": {
        "Order": {
            "type": "object",
            "properties": {"id": {"type": "string"}, "cents": {"type": "integer"}},
            "required": ["id", "cents"],
        }
    },
}


def workflow(name: str, kind: str = "script", **more: Any) -> Json:
    return {
        "id": name, "name": name, "kind": kind, "version": "2", "definition": "abc", "description": "An order.",
        "input": SCHEMA, "output": {}, "queue": "default", "retry": None, "timeout": None, "raises": [],
        "is_remote": False, "steps": [], "states": [], "checkpoints": [],
        "in_flight": [{"version": "2", "count": 12, "is_capped": False, "is_served": True}],
    } | more  # fmt: skip


def with_workflows(site: Site) -> None:
    states = [
        {"name": "Reserve", "kind": "step", "position": 0, "leads_to": ["Pack"]},
        {"name": "Pack", "kind": "step", "position": 1, "leads_to": []},
    ]
    seen = [{"name": "charge", "kind": "step", "position": 0}]
    old = [{"version": "1", "count": 3, "is_capped": False, "is_served": False}]
    site.answers["workflows"] = {
        "format": 1,
        "workflows": [
            workflow("fulfil", checkpoints=seen, in_flight=[*workflow("x")["in_flight"], *old]),
            workflow("parcel", "machine", states=states),
        ],
    }
    recent = [
        {
            "at": instant(-number),
            "status": "failed" if number == 3 else "completed",
            "seconds": 1.5,
            "run": f"r{number}",
        }
        for number in range(10)
    ]
    site.answers["workflows/stats"] = {
        "workflow": "fulfil", "version": None, "ended": 1000, "completed": 950, "failed": 40, "cancelled": 10,
        "success_rate": 0.95, "p50_seconds": 1.2, "p95_seconds": 9.1, "p99_seconds": 20.0, "recent": recent,
    }  # fmt: skip


async def test_workflows_say_how_they_fare(page: Page, site: Site) -> None:
    with_workflows(site)
    await page.goto(f"{site.url}/workflows")
    fulfil = page.get_by_label("fulfil", exact=True)
    for text in ("95.0 %", "1.20 s", "9.10 s", "12", "in flight of v2", "in flight of v1, which no worker serves"):
        await expect(fulfil).to_contain_text(text)
    await expect(fulfil).to_contain_text("its runs have asked for")  # what was seen is never drawn as a plan
    await fulfil.get_by_role("link", name="r3").click()
    await expect(page).to_have_url(f"{site.url}/run?id=r3")


async def test_a_machine_is_drawn_as_declared(page: Page, site: Site) -> None:
    with_workflows(site)
    await page.goto(f"{site.url}/workflow?name=parcel")
    graph = page.get_by_label("states")
    await expect(graph.locator(".node")).to_have_count(2)
    await expect(graph.locator(".edge")).to_have_count(1)


async def test_a_run_is_started_by_a_form_made_from_the_schema(page: Page, site: Site) -> None:
    """Contract: what is typed into the fields is sent as the schema wants it."""
    with_workflows(site)
    await page.goto(f"{site.url}/workflows")
    await page.get_by_label("fulfil", exact=True).get_by_role("button", name="Start a run").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("id", exact=True).fill("48300")
    await dialog.get_by_label("cents").fill("250")
    await dialog.get_by_label("speed").select_option("fast")
    await dialog.get_by_label("gift").check()
    await dialog.get_by_label(re.compile("^Id")).fill("order/48300")
    await dialog.get_by_role("button", name="as JSON").click()
    await dialog.get_by_role("button", name="as a form").click()
    await dialog.get_by_role("button", name="Start", exact=True).click()
    await expect(page).to_have_url(f"{site.url}/run?id=order%2F48300")
    value = {"order": {"id": "48300", "cents": 250}, "speed": "fast", "gift": True}
    assert site.posts == [("runs", {}, {"workflow": "fulfil", "version": "2", "input": value, "id": "order/48300"})]


async def test_what_is_refused_is_said_in_the_dialog(page: Page, site: Site) -> None:
    with_workflows(site)
    refusal = {"title": "Invalid input", "detail": "$.order.cents: expected int", "status": 422}
    await page.route(re.compile("/api/v1/runs$"), lambda route: route.fulfill(status=422, json=refusal))
    await page.goto(f"{site.url}/workflows")
    await page.get_by_label("fulfil", exact=True).get_by_role("button", name="Start a run").click()
    await page.get_by_role("dialog").get_by_role("button", name="Start", exact=True).click()
    await expect(page.get_by_role("alert")).to_contain_text("$.order.cents: expected int")


def worker(name: str, *, is_live: bool, holds: list[Json]) -> Json:
    recovery: Json = {"counts": {}, "recent": [], "taken": [], "left": []}
    if is_live:
        recovery["taken"] = [{"run": "order-48213", "kind": "taken over", "detail": "worker-1", "at": instant(-20)}]
    return {
        "instance": f"{name}-1", "worker": name, "queues": ["default"], "definitions": [["fulfil", "2"]], "pid": 41,
        "host": "shop-1", "started_at": instant(-600), "is_live": is_live, "active": len(holds), "progress": "",
        "recovery": recovery, "seen_at": instant(-200 if not is_live else -1), "damage": [], "holds": holds,
    }  # fmt: skip


def with_workers(site: Site) -> None:
    live = worker("worker-2", is_live=True, holds=site.runs[1:3])
    site.answers["workers"] = {"workers": [worker("worker-1", is_live=False, holds=[]), live]}


async def test_workers_are_lanes_with_what_they_hold(page: Page, site: Site) -> None:
    await page.goto(f"{site.url}/workers")
    await expect(page.locator(".empty")).to_contain_text("holdfast worker MODULE:APP")
    with_workers(site)
    await expect(page.get_by_label("worker-2")).to_contain_text("took over order-48213 from worker-1")
    await expect(page.get_by_label("worker-2").locator(".holding")).to_have_count(2)
    await expect(page.get_by_label("worker-1")).to_contain_text(re.compile(r"gone.*last seen 3 min ago", re.DOTALL))


def with_manager(site: Site) -> None:
    holder = {"is_live": True, "active": 21, "seen_at": instant(-1), "skew_seconds": 0.0, "runs": ["order-48213"]}
    site.answers["leases"] = {
        "manager": "etcd", "compared": 22, "problem": "",
        "members": [
            {"address": "http://etcd-1:2379", "role": "etcd 3.5.1, leader", "problem": ""},
            {"address": "http://etcd-2:2379", "role": "", "problem": "it has no leader: there is no quorum"},
        ],
        "holders": [
            {"worker": "worker-1", **holder, "is_live": False, "active": 1, "seen_at": None, "runs": ["lost"]},
            {"worker": "worker-2", **holder, "skew_seconds": 300.0},
        ],
        "disagreements": [{"run": "order-48214", "granted_to": "worker-2", "held_by": "worker-3"}],
    }  # fmt: skip


async def test_a_lease_manager_is_shown_with_its_servers_and_what_is_wrong(page: Page, site: Site) -> None:
    """Contract: nothing while the store grants its leases; then servers, who holds what, skews and disagreements."""
    with_workers(site)
    await page.goto(f"{site.url}/workers")
    await expect(page.get_by_label("worker-2")).to_be_visible()
    await expect(page.get_by_label("lease manager")).to_have_count(0)
    with_manager(site)
    await page.reload()
    shown = page.get_by_label("lease manager")
    await expect(shown).to_contain_text("Leases by etcd")
    servers = shown.get_by_label("servers").get_by_role("listitem")
    await expect(servers.nth(0)).to_contain_text("http://etcd-1:2379 etcd 3.5.1, leader")
    await expect(servers.nth(1)).to_contain_text("it has no leader: there is no quorum")
    rows = shown.get_by_role("row")
    await expect(rows.nth(1)).to_contain_text(re.compile(r"silent.*worker-1.*never.*lost", re.DOTALL))
    await expect(rows.nth(2)).to_contain_text("its clock is 5 min ahead of the store's")
    await expect(rows.nth(2)).to_contain_text("and 20 more")
    await expect(shown).to_contain_text("is granted to worker-2, and held by worker-3 in the store")
    site.answers["leases"] = {**site.answers["leases"], "problem": "etcd does not answer", "disagreements": []}
    await page.reload()
    await expect(shown.get_by_role("alert")).to_contain_text("etcd does not answer")
    await shown.get_by_role("link", name="order-48213").click()
    await expect(page).to_have_url(f"{site.url}/run?id=order-48213")


def with_batch(site: Site) -> None:
    statuses = ["completed"] * 6 + ["failed", "running", "pending", "pending"]
    batch = {
        "id": "nightly", "workflow": "price", "status": "running", "concurrency": 10, "order": "depth", "retries": "",
        "created_at": instant(-60), "ended_at": None, "run": samples.run("nightly"),
        "counts": {"total": 10, "completed": 6, "failed": 1, "cancelled": 0, "running": 1},
    }  # fmt: skip
    errors = {"failed": "no price"}
    items = [
        {"index": at, "status": status, "run": f"nightly/{at}", "result": None, "error": errors.get(status, "")}
        for at, status in enumerate(statuses)
    ]
    site.answers |= {
        "batches": {"batches": [batch], "next": ""}, "batch": batch, "batch/items": {"items": items, "next": ""},
        "batch/cancel": {"batch": batch},
    }  # fmt: skip


async def test_a_batch_is_a_field_of_items(page: Page, site: Site) -> None:
    with_batch(site)
    await page.goto(f"{site.url}/batches")
    await page.get_by_role("link", name="nightly").click()
    await expect(page.locator(".counts")).to_contain_text("6 of 10 completed")
    await expect(page.get_by_label("10 items, 1 failed")).to_be_visible()
    await expect(page.locator("tbody")).to_contain_text("no price")
    await page.get_by_role("button", name="Cancel").click()
    await page.get_by_role("dialog").get_by_role("button", name="cancel").click()
    await expect(page.locator(".toast")).to_be_visible()
    assert [path for path, _, _ in site.posts] == ["batch/cancel"]


@pytest.mark.parametrize("how", ["is_down", "is_busy"])
async def test_a_batch_goes_on_when_the_server_is_back(page: Page, site: Site, how: str) -> None:
    """Promise: the page says that the server is away, and shows what the batch has done since without a reload."""
    with_batch(site)
    await page.goto(f"{site.url}/batches")
    await page.get_by_role("link", name="nightly").click()
    await expect(page.locator(".counts")).to_contain_text("6 of 10 completed")
    setattr(site, how, True)
    await expect(page.locator(".live")).to_contain_text("not connected since")
    site.answers["batch"]["counts"] |= {"completed": 8, "running": 0}
    setattr(site, how, False)
    await expect(page.locator(".counts")).to_contain_text("8 of 10 completed")
    await expect(page.locator(".live")).to_have_text("live")


async def test_pages_without_anything_say_what_to_do(page: Page, site: Site) -> None:
    for name, told in {
        "workflows": "holdfast dashboard MODULE:APP",
        "queues": "holdfast worker MODULE:APP --queue default",
        "batches": "holdfast batch MODULE:APP WORKFLOW --inputs inputs.jsonl --out results.jsonl",
    }.items():
        site.answers[name] = {name: [], "next": ""}
        await page.goto(f"{site.url}/{name}")
        await expect(page.locator(".empty")).to_contain_text(told)


async def test_times_are_local_and_utc_is_a_hover_away(browser: Browser, site: Site) -> None:
    """Promise: the zone is that of the browser; what is hovered over says UTC."""
    context = await browser.new_context(timezone_id="Asia/Kolkata")  # five and a half hours ahead, all year
    page = await context.new_page()
    await page.goto(f"{site.url}/run?id=order-48213")
    began = datetime.fromisoformat(site.runs[1]["started_at"])
    shown = page.locator(".facts time").first
    await expect(shown).to_have_text(re.compile(f"{began + timedelta(hours=5, minutes=30):%H:%M:%S}$"))
    assert f"{began:%Y-%m-%d %H:%M:%S}" in str(await shown.get_attribute("title"))
    assert "UTC" in str(await shown.get_attribute("title"))
    await context.close()
