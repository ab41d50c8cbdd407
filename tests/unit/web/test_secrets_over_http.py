"""Secret values of a flow, asked for over HTTP in every way there is."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from holdfast import App, Retry, RunVar, Stream, Update, set_attributes, step, workflow
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


@step(retry=Retry(2, first="1m"))
async def odd(text: str) -> None:
    raise ValueError(f"odd {text}")


@workflow
async def complains() -> None:
    """Says in its error what its flow returns."""
    raise ValueError(str(await packs(None, vars={"token": SECRET})))


@workflow
async def retries() -> None:
    """A list says why it waits."""
    await odd(str(await packs(None, vars={"token": SECRET})))


asked_for = Update[str, str]("asked_for")


@workflow
async def named() -> str:
    """Has it in an attribute, in what it answers, and in why it refuses."""
    made = str(await packs(None, vars={"token": SECRET}))
    set_attributes(made=made)
    async with asked_for.take() as first:
        first.answer(f"{first.value} {made}")
    async with asked_for.take() as second:
        second.refuse(f"{second.value} {made}")
    return made


IDS = ["failed", "script", "above", "batch", "complains", "named"]
ENDED = {*IDS, "batch%2F0"} | {f"{run}%2F{of}" for run in ("script", "above%2Fouter") for of in ("packs", "passes_on")}


async def asked(api: Api) -> dict[str, str]:
    """What each route answers about each run, by its path."""
    texts: dict[str, str] = {}
    rows = (await api.get("runs?limit=500"))["runs"]
    runs = [row["id"].replace("/", "%2F") for row in rows]
    assert {"above%2Fouter%2Fpasses_on", "above%2Fouter%2Fpacks", "batch%2F0"} <= ENDED <= {*runs}
    for route in (one for one in ROUTES if one.method == "GET" and one.media_type == "application/json"):
        for run in runs if "{id}" in route.path else [""]:
            path = route.path.format(id=run, key="a", name="default")
            for query in ("?of=result", "?of=exposed:shown") if path.endswith("/value") else ("",):
                texts[path.removeprefix("/api/v1/") + query] = (await api.ask("GET", path + query)).text
    for run in runs:
        for turn in (await api.get(f"runs/{run}/journal"))["turns"]:
            path = f"runs/{run}/journal?limit=1&after={int(turn['seq']) - 1}"
            texts[path] = (await api.ask("GET", f"/api/v1/{path}")).text
        for stream in ("events?after=0", "streams/told") if run in ENDED else ():
            async with Events(api.server, f"/api/v1/runs/{run}/{stream}", api.secrets["read"]) as events:
                texts[f"runs/{run}/{stream}"] = msgspec.json.encode(await events.rest()).decode()
    return texts


async def test_no_route_shows_a_secret() -> None:
    """Promise: lists, runs, stories, journals, steps, values, items and streams have the mark in place of a secret: of
    the flow, of the batch or script that has its result, of the runs above that, and of those it was passed on to."""
    declared: list[Any] = [packs, fails, outer, above, passes_on, complains, named, retries, pack, refuse, odd]
    app = App("memory://", workflows=declared)
    async with app:
        api = made_api(app)
        async with api.http:
            await app.start(fails(None, vars={"token": SECRET}), id="failed")
            await app.start(outer(), id="script")
            await app.start(above(), id="above")
            await app.start(complains(), id="complains")
            await app.start(retries(), id="retries")
            await app.start_batch(packs, [packs(None, vars={"token": SECRET})], id="batch")
            await app.start(named(), id="named")
            work = asyncio.create_task(api.work(*IDS))
            answers = [
                (await api.ask("POST", "/api/v1/runs/named/update", {"name": "asked_for", "value": text})).text
                for text in ("answer", "refuse")
            ]
            await work
            await api.until_waiting("retries", "failed, retrying")
            texts = {"answer": answers[0], "refusal": answers[1], **await asked(api)}
    leaks = {path: text[max(0, text.index(SECRET) - 200) :] for path, text in texts.items() if SECRET in text}
    assert not leaks
    hidden = {path for path, text in texts.items() if "•••" in text}
    assert {"answer", "refusal", "runs/named/story"} <= hidden
    assert all(
        run["attributes"] == {"made": "packed s-•••"}
        for run in msgspec.json.decode(texts["runs"])["runs"]
        if run["id"] == "named"
    )
    for run in IDS:
        assert {f"runs/{run}/journal", f"runs/{run}/events?after=0"} <= hidden, run
    assert {"runs/failed/story", "runs/script/story", "runs/failed", "runs/script"} <= hidden
    assert {"runs", "runs/script/value?of=result", "runs/batch%2F0/steps/a"} <= hidden
    assert {"runs/complains", "runs/complains/story", "runs/retries", "runs/retries/story"} <= hidden
    for run in ("script", "above"):
        assert {f"runs/{run}/values", f"runs/{run}/value?of=exposed:shown", f"runs/{run}/streams/told"} <= hidden, run
