"""Streams over HTTP: parts as events, from where a reader left off, behind the gate."""

from __future__ import annotations

from typing import Any

from tests.unit.web.conftest import Api, Stream


def events(api: Api, path: str, role: str = "read", **headers: str) -> Stream:
    return Stream(api.server, f"/api/v1/{path}", api.secrets[role], **headers)


async def told(api: Api, path: str, **headers: str) -> list[tuple[str, str, Any]]:
    async with events(api, path, **headers) as stream:
        return await stream.rest()


async def ended(api: Api) -> None:
    await api.post("runs", {"workflow": "speech", "input": {"words": ["a", "b", "c"]}, "id": "r"}, status=201)
    await api.work("r")


async def test_parts_come_until_the_end(api: Api) -> None:
    """Promise: each with its offset as id, its step, attempt, state and value; then the run's end."""
    await ended(api)
    *parts, end = await told(api, "runs/r/streams/tokens")
    assert [(name, place, data["offset"], data["value"]) for name, place, data in parts] == [
        ("part", str(number), number, word) for number, word in enumerate(["a", "b", "c"])
    ]
    assert {(data["step"], data["attempt"], data["state"]) for _, _, data in parts} == {("say", 1, "completed")}
    assert (end[0], end[2]) == ("end", {"status": "completed"})


async def test_a_reader_that_comes_back_misses_nothing(api: Api) -> None:
    """Promise: from `Last-Event-ID`, or `after`, exactly what follows."""
    await ended(api)
    whole = await told(api, "runs/r/streams/tokens")
    for place, (_, seen, _) in enumerate(whole[:-1]):
        assert await told(api, "runs/r/streams/tokens", last_event_id=seen) == whole[place + 1 :]
        assert await told(api, f"runs/r/streams/tokens?after={seen}&only=completed") == whole[place + 1 :]


async def test_a_stream_in_the_query(api: Api) -> None:
    """Promise: the second form, for proxies that decode; a stream that is empty ends with the run."""
    await ended(api)
    assert await told(api, "run/streams?id=r&name=tokens") == await told(api, "runs/r/streams/tokens")
    assert [name for name, _, _ in await told(api, "runs/r/streams/none")] == ["end"]


async def test_the_story_names_the_streams(api: Api) -> None:
    await ended(api)
    assert (await api.get("runs/r/story"))["streams"] == {"tokens": 3}


async def test_wrong_questions(api: Api) -> None:
    await ended(api)
    for path, status in [
        ("runs/nobody/streams/tokens", 404),
        ("runs/r/streams/tokens?only=open", 400),
        ("runs/r/streams/tokens?after=x", 400),
        (f"runs/r/streams/{'x' * 300}", 422),
    ]:
        assert (await api.ask("GET", f"/api/v1/{path}", role="read")).status_code == status, path
    assert (await api.ask("GET", "/api/v1/runs/r/streams/tokens", role=None)).status_code == 401


async def test_the_document_types_the_events(api: Api) -> None:
    """Promise: what is in the data of each event is in the OpenAPI document."""
    document = await api.get("openapi.json")
    answer = document["paths"]["/api/v1/runs/{id}/streams/{name}"]["get"]["responses"]["200"]
    said = answer["content"]["text/event-stream"]["schema"]["x-events"]
    assert said["part"] == {"$ref": "#/components/schemas/StreamPart"}
    assert set(document["components"]["schemas"]["StreamPart"]["properties"]) == {
        *("offset", "step", "attempt", "state", "value")
    }
