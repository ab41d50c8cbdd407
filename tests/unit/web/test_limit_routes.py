"""Limits over HTTP: what they allow, and what people do to them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import App, Limit, step, workflow
from holdfast.core.limit import Rule
from holdfast.upkeep.limit_book import declare
from tests.unit.web.conftest import PATIENCE, Api, made_api


@pytest.fixture
async def limited(api: Api) -> Api:
    client = await api.app.client()
    await declare(client.store, {"api": Rule(20_000, 10, None)}, instance="i1")
    return api


async def test_a_limit_is_set_until_it_is_reset(limited: Api) -> None:
    """Promise: list and single answer agree; what a person sets counts until the reset."""
    [listed] = (await limited.get("limits"))["limits"]
    one = await limited.get("limits/api")
    assert (one["limit"], one["keys"], one["next"]) == (listed, [], "")
    assert (listed["rate"], listed["burst"], listed["held"], listed["waiting"]) == ("50/s", 10, 0, 0)
    shown = (await limited.post("limits/api/set", {"rate": "5/s"}, role="admin"))["limit"]
    assert (shown["rate"], shown["by_hand"]) == ("5/s", True)
    assert (await limited.post("limits/api/reset", role="admin"))["limit"] == listed


async def test_a_limit_is_paused_with_a_reason_and_resumed(limited: Api) -> None:
    """Promise: a pause has a reason."""
    shown = (await limited.post("limits/api/pause", {"reason": "429s"}, role="operate"))["limit"]
    assert (shown["paused"], shown["reason"]) == (True, "429s")
    assert (await limited.post("limits/api/resume", role="operate"))["limit"]["paused"] is False


customer = Limit("customer", at_once=1)
free = asyncio.Event()


@step(limits=[customer.by("who")])
async def price(who: str) -> None:
    await free.wait()


@workflow
async def priced(who: str) -> None:
    await price(who)


async def test_a_limit_names_the_keys_most_wait_for_and_who_holds_them() -> None:
    """Promise: `busiest` has the key with a waiter first, with the run and step that has its place."""
    app = App("memory://", workflows=[priced])
    async with asyncio.timeout(PATIENCE), app, app.worker(poll="10ms"):
        api = made_api(app)
        for run, who in (("r1", "acme"), ("r2", "initech"), ("r3", "initech")):
            await app.start(priced(who), id=run)
        busiest: list[dict[str, Any]] = []
        while [(line["held"], line["waiting"]) for line in busiest] != [(1, 1), (1, 0)]:
            await asyncio.sleep(0.01)
            api.server.service.forget(("busiest", "customer"))
            known = (await api.get("limits"))["limits"]
            busiest = (await api.get("limits/customer"))["busiest"] if known else []
        free.set()
    first, second = busiest
    assert (first["key"], second["key"], second["places"]) == ("initech", "acme", [{"run": "r1", "step": "price"}])
    assert first["places"][0]["run"] in {"r2", "r3"}
