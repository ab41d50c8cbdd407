"""Streams of a run over HTTP: parts as server-sent events. The id of each message is the offset of its part, so a
browser that reconnects continues after it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import msgspec
from starlette.responses import StreamingResponse

from holdfast.authoring.handle import PartState
from holdfast.client.client import Client
from holdfast.client.hidden_values import redaction_for
from holdfast.client.inspect.lookup import find_run
from holdfast.client.stream_reader import Only, read_raw
from holdfast.core.ids import check_name
from holdfast.core.redaction import Redaction
from holdfast.web.handler_call import Call
from holdfast.web.problems import Problem
from holdfast.web.streams import after_id, event_stream, message, watched

RECENT = 1.0
"""Seconds for which an answer is kept, however many pages are open."""


class StreamPart(msgspec.Struct, frozen=True):
    """The data of an event `part`."""

    offset: int
    step: str
    attempt: int
    state: PartState
    value: Any


class StreamEnd(msgspec.Struct, frozen=True):
    """The data of the event `end`: the run has ended, with this status, or was removed."""

    status: str


async def ends(call: Call) -> dict[str, Any]:
    """`GET runs/{id}/stream-ends`: cheap enough to be asked for again and again while a run is looked at."""
    await find_run(call.client, call.id)

    async def ask() -> dict[str, int]:
        return dict(await call.client.store.streams_of(call.id))

    return {"streams": await call.service.kept(("streams", call.id), ask, RECENT)}


async def parts(call: Call) -> StreamingResponse:
    """`GET runs/{id}/streams/{name}`."""
    row = await find_run(call.client, call.id)
    name = check_name(call.path["name"], "the name of a stream")
    redaction = await redaction_for(call.client.store, row)
    messages = _messages(call.client, call.id, name, after_id(call), _only(call.query.text("only")), redaction)
    return event_stream(call.service, watched(call, messages))


def _only(text: str) -> Only:
    if text not in ("", "completed"):
        raise Problem(400, "BadRequest", f"only={text[:80]!r}: completed, or nothing")
    return "completed" if text else None


async def _messages(
    client: Client, run: str, name: str, after: int, only: Only, redaction: Redaction
) -> AsyncGenerator[bytes]:
    async for part in read_raw(client, run, name, after, only):
        value = redaction.value(msgspec.json.decode(part.value))
        shown = StreamPart(part.offset, part.step, part.attempt, part.state, value)
        yield message("part", shown, str(part.offset))
    row = await client.store.get(run)
    yield message("end", StreamEnd("removed" if row is None else row.status.value))
