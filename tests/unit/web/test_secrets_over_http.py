"""Secret values of a flow, asked for over HTTP in every way there is."""

from __future__ import annotations

import msgspec

from holdfast import App, step, workflow
from holdfast.web.table import ROUTES
from tests.support.flows import flow
from tests.unit.web.conftest import Stream, made_api

SECRET = "hunter-22-of-the-shop"


@step
async def pack(sku: str) -> str:
    return f"packed {sku}"


@step
async def refuse(why: str) -> str:
    raise ValueError(why)


packs = flow(
    "packs", {"a": {"call": "pack", "with": {"sku": "s-${vars.token}"}}}, "${steps.a}", vars={"token": {"secret": True}}
)
fails = flow(
    "fails",
    {"b": {"call": "refuse", "with": {"why": "401 for ${vars.token}"}, "retry": {"attempts": 1}}},
    "${steps.b}",
    vars={"token": {"secret": True}},
)


@workflow
async def outer() -> str:
    return str(await packs(None, vars={"token": SECRET}))


async def test_no_route_shows_a_secret() -> None:
    """Promise: lists, runs, stories, journals, steps, values, items and streams have the mark in place of a secret: of
    the flow, and of the batch or script that has its result."""
    app = App("memory://", workflows=[packs, fails, outer, pack, refuse])
    async with app:
        api = made_api(app)
        async with api.http:
            ids = ["failed", "script", "batch"]
            await app.start(fails(None, vars={"token": SECRET}), id="failed")
            await app.start(outer(), id="script")
            await app.start_batch(packs, [packs(None, vars={"token": SECRET})], id="batch")
            await api.work(*ids)
            texts: dict[str, str] = {}
            for route in (one for one in ROUTES if one.method == "GET" and one.media_type == "application/json"):
                for run in [*ids, "batch%2F0"] if "{id}" in route.path else [""]:
                    path = route.path.format(id=run, key="a", name="default") + "?of=result" * ("value" in route.path)
                    texts[path.removeprefix("/api/v1/")] = (await api.ask("GET", path.removesuffix("s?of=result"))).text
            for run in ids:
                async with Stream(api.server, f"/api/v1/runs/{run}/events?after=0", api.secrets["read"]) as stream:
                    texts[f"stream of {run}"] = msgspec.json.encode(await stream.rest()).decode()
    leaks = {path: text[max(0, text.index(SECRET) - 200) :] for path, text in texts.items() if SECRET in text}
    assert not leaks
    hidden = {path for path, text in texts.items() if "•••" in text}
    for run in ids:
        assert {f"runs/{run}/journal", f"stream of {run}"} <= hidden, run
    assert {"runs/failed/story", "runs/script/story", "runs/failed", "runs/script"} <= hidden
    assert {"runs", "runs/script/value?of=result", "runs/batch%2F0/steps/a"} <= hidden
