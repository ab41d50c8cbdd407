"""Streams: nothing is missed, nothing comes twice, and however many are open, one look at the store serves them all."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.unit.web.conftest import Api, Stream


async def started(api: Api, workflow: str, id: str, **input: object) -> None:
    await api.post("runs", {"workflow": workflow, "input": input, "id": id}, status=201)


def stream(api: Api, path: str, role: str = "read", **headers: str) -> Stream:
    return Stream(api.server, f"/api/v1/{path}", api.secrets[role], **headers)


def timeless(events: list[tuple[str, str, Any]]) -> list[tuple[str, str, Any]]:
    """Without the run, which says when it was looked at."""
    return [(name, seq, {key: value for key, value in told.items() if key != "run"}) for name, seq, told in events]


async def test_a_journal_is_streamed_until_its_end(api: Api) -> None:
    """Promise: every row once, with its entries and the run; then the end."""
    await started(api, "approval", "r", name="ann")
    async with stream(api, "runs/r/events") as events:
        first = await events.next()
        assert first is not None
        assert (first[0], first[2]["events"][0]["type"], first[2]["run"]["id"]) == ("turn", "started", "r")
        await api.until_waiting("r", "waiting for signal")
        await api.post("runs/r/signal", {"name": "approved", "value": True})
        await api.work("r")
        rest = await events.rest()
    whole = (await api.get("runs/r/journal"))["turns"]
    assert [first[1], *(seq for name, seq, _ in rest if name == "turn")] == [turn["seq"] for turn in whole]
    assert rest[-1][0] == "end"
    assert rest[-1][2] == {"status": "completed"}
    entries = {entry["number"]: entry for _, _, told in [first, *rest[:-1]] for entry in told["entries"]}
    assert list(entries.values()) == (await api.get("runs/r/story"))["timeline"]


async def test_a_reader_that_comes_back_misses_nothing(api: Api) -> None:
    """Promise: from `Last-Event-ID`, or `after`, exactly what follows, with entries that end what began before."""
    await started(api, "hello", "r", name="ann")
    await api.work("r")
    async with stream(api, "runs/r/events") as events:
        whole = await events.rest()
    for place, (_, seen, _) in enumerate(whole[:-1]):
        async with stream(api, "runs/r/events", last_event_id=seen) as events:
            assert timeless(await events.rest()) == timeless(whole[place + 1 :])
        async with stream(api, f"runs/r/events?after={seen}") as events:
            assert timeless(await events.rest()) == timeless(whole[place + 1 :])


async def test_the_list_is_live(api: Api) -> None:
    """Promise: a run that changed comes as it is now; one that no longer matches is named as gone."""
    seq = (await api.get("runs"))["seq"]
    async with stream(api, f"runs/events?status=pending&after={seq}") as events:
        hello = await events.next()
        assert hello is not None
        assert hello[0] == "hello"
        await started(api, "hello", "r", name="x")
        told = await events.next()
        assert told is not None
        assert (told[0], [run["id"] for run in told[2]["runs"]]) == ("runs", ["r"])
        await api.work("r")
        told = await events.next()
        assert told is not None
        assert (told[2]["runs"], told[2]["gone"]) == ([], ["r"])


async def test_a_list_that_comes_back_hears_what_it_missed(api: Api) -> None:
    """Promise: between the list and the stream, and between two streams, nothing is lost."""
    await started(api, "hello", "a", name="x")
    seq = (await api.get("runs"))["seq"]
    await started(api, "hello", "b", name="x")
    async with stream(api, f"runs/events?after={seq}") as events:
        told = await events.next()
        assert told is not None
        assert [run["id"] for run in told[2]["runs"]] == ["b"]
        seen = told[1]
    await started(api, "hello", "c", name="x")
    async with stream(api, f"runs/events?after={seq}", last_event_id=seen) as events:
        told = await events.next()
        assert told is not None
        assert [run["id"] for run in told[2]["runs"]] == ["c"]


async def test_a_reader_of_an_empty_store_misses_nothing(api: Api) -> None:
    """Promise: the seq of an empty store is one to continue from, like any other."""
    seq = (await api.get("runs"))["seq"]
    assert seq == "0"
    await started(api, "hello", "first", name="x")
    for after, headers in ((f"?after={seq}", {}), ("", {"last_event_id": seq})):
        async with stream(api, f"runs/events{after}", **headers) as events:
            told = await events.next()
            assert told is not None
            assert [run["id"] for run in told[2].get("runs", [])] == ["first"]


async def test_the_streams_of_a_revoked_token_end(api: Api) -> None:
    await started(api, "payment", "p")
    async with stream(api, "runs/p/events") as journal, stream(api, "runs/events") as listed:
        await journal.next()
        await listed.next()
        token = next(token for token in api.tokens.tokens() if token.name == "read")
        api.tokens.revoke(token.id)
        for events in (journal, listed):
            assert (await events.rest())[-1][::2] == ("bye", {"reason": "revoked"})
    assert api.server.service.streams == 0


async def test_streams_end_with_a_hint_when_the_server_stops(api: Api) -> None:
    await started(api, "payment", "p")
    async with stream(api, "runs/p/events") as events:
        await events.next()
        api.server.service.stopping.set()
        assert (await events.rest())[-1][::2] == ("bye", {"reason": "shutdown"})
        assert events.retries == [1000, 3000]


async def test_a_stream_of_nothing_is_refused_at_once(api: Api) -> None:
    for path, status in (("runs/none/events", 404), ("runs/events?after=x", 400), ("runs/events?odd=1", 400)):
        async with stream(api, path) as events:
            await events.next()
        assert events.status == status
    async with stream(api, "runs/events", last_event_id="x") as events:
        await events.next()
    assert events.status == 400


async def spied(api: Api, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the questions that the store is asked from now on."""
    store = (await api.app.client()).store
    asked: list[str] = []
    for name in ("news", "history", "get", "list", "read", "final_seq", "exposures", "workers"):
        real = getattr(store, name)

        def spy(*args: object, real: object = real, name: str = name, **options: object) -> object:
            asked.append(name)
            return real(*args, **options)  # type: ignore[operator]

        monkeypatch.setattr(store, name, spy)
    return asked


async def looks(asked: list[str], count: int) -> None:
    """Until the store was looked at so many times."""
    while asked.count("news") < count:  # noqa: ASYNC110 a counter
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("kind", ["runs/p{0}/events", "runs/events"])
async def test_many_idle_streams_cost_one_look(api: Api, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Promise: 200 streams that nothing happens to ask at most a few times a second, together."""
    for number in range(200):
        await started(api, "payment", f"p{number}")
    asked = await spied(api, monkeypatch)
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(stream(api, kind.format(number))) for number in range(200)]
        for one in opened:
            await one.next()
        loop = asyncio.get_running_loop()
        await looks(asked, 2)  # by then every stream has read what there is, and waits
        asked.clear()
        begin = loop.time()
        await looks(asked, 3)
        past = loop.time() - begin
    assert past >= 1.5
    assert len(asked) <= 5 * past, asked


async def test_a_change_is_read_once_for_all_lists(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: a hundred open lists ask as much about a run that failed as one does."""
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(stream(api, "runs/events")) for _ in range(100)]
        for one in opened:
            await one.next()
        asked = await spied(api, monkeypatch)
        await started(api, "fails", "r", text="x")
        await api.work("r")
        for one in opened:
            while True:
                told = await one.next()
                assert told is not None
                if told[2]["runs"] and told[2]["runs"][0]["status"] == "failed":
                    assert told[2]["runs"][0]["error"]
                    break
    assert len([name for name in asked if name != "news"]) < 100, asked
