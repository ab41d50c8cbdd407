"""Secret values of a flow, asked for over HTTP in every way there is."""

from __future__ import annotations

import msgspec

from holdfast import App, RunVar, Stream, step, workflow
from holdfast.web.table import ROUTES
from tests.support.flows import flow
from tests.unit.web.conftest import Api, made_api
from tests.unit.web.conftest import Stream as Events

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


shown = RunVar[str]("shown")
told = Stream[str]("told")


@workflow
async def passes_on(text: str) -> str:
    shown.set(text)
    told.send(text)
    return await pack(text)


@workflow
async def outer() -> str:
    """Shows what its flow returns, and gives it to a run that is no flow."""
    made = str(await packs(None, vars={"token": SECRET}))
    shown.set(made)
    told.send(made)
    return await passes_on(made)


@workflow
async def above() -> str:
    """Knows of no flow: its child does."""
    made = str(await outer())
    shown.set(made)
    told.send(made)
    return made


IDS = ["failed", "script", "above", "batch"]


async def asked(api: Api) -> dict[str, str]:
    """What each route answers about each run, by its path."""
    texts: dict[str, str] = {}
    rows = (await api.get("runs?limit=500"))["runs"]
    runs = [row["id"].replace("/", "%2F") for row in rows]
    assert {"above%2Fouter%2Fpasses_on", "above%2Fouter%2Fpacks", "batch%2F0"} <= {*runs}
    for route in (one for one in ROUTES if one.method == "GET" and one.media_type == "application/json"):
        for run in runs if "{id}" in route.path else [""]:
            path = route.path.format(id=run, key="a", name="default")
            for query in ("?of=result", "?of=exposed:shown") if path.endswith("/value") else ("",):
                texts[path.removeprefix("/api/v1/") + query] = (await api.ask("GET", path + query)).text
    for run in runs:
        for turn in (await api.get(f"runs/{run}/journal"))["turns"]:
            path = f"runs/{run}/journal?limit=1&after={int(turn['seq']) - 1}"
            texts[path] = (await api.ask("GET", f"/api/v1/{path}")).text
        for stream in ("events?after=0", "streams/told"):
            async with Events(api.server, f"/api/v1/runs/{run}/{stream}", api.secrets["read"]) as events:
                texts[f"runs/{run}/{stream}"] = msgspec.json.encode(await events.rest()).decode()
    return texts


async def test_no_route_shows_a_secret() -> None:
    """Promise: lists, runs, stories, journals, steps, values, items and streams have the mark in place of a secret: of
    the flow, of the batch or script that has its result, of the runs above that, and of those it was passed on to."""
    app = App("memory://", workflows=[packs, fails, outer, above, passes_on, pack, refuse])
    async with app:
        api = made_api(app)
        async with api.http:
            await app.start(fails(None, vars={"token": SECRET}), id="failed")
            await app.start(outer(), id="script")
            await app.start(above(), id="above")
            await app.start_batch(packs, [packs(None, vars={"token": SECRET})], id="batch")
            await api.work(*IDS)
            texts = await asked(api)
    leaks = {path: text[max(0, text.index(SECRET) - 200) :] for path, text in texts.items() if SECRET in text}
    assert not leaks
    hidden = {path for path, text in texts.items() if "•••" in text}
    for run in IDS:
        assert {f"runs/{run}/journal", f"runs/{run}/events?after=0"} <= hidden, run
    assert {"runs/failed/story", "runs/script/story", "runs/failed", "runs/script"} <= hidden
    assert {"runs", "runs/script/value?of=result", "runs/batch%2F0/steps/a"} <= hidden
    for run in ("script", "above"):
        assert {f"runs/{run}/values", f"runs/{run}/value?of=exposed:shown", f"runs/{run}/streams/told"} <= hidden, run
