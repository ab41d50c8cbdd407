"""Streams of a run over HTTP: parts as server-sent events. The id of each message is the offset of its part, so a
browser that reconnects continues after it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec
from starlette.responses import StreamingResponse

from holdfast.client.client import Client
from holdfast.client.inspect.lookup import find_run
from holdfast.client.stream_reader import Only, read_shown
from holdfast.core.ids import check_name
from holdfast.ports.runs import RunRow
from holdfast.web.handler_call import Call
from holdfast.web.problems import Problem
from holdfast.web.streams import after_id, event_stream, message, watched

RECENT = 1.0
"""Seconds for which an answer is kept, however many pages are open."""


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
    await call.client.hidden.of(row)  # a start that cannot be read is an error of the request
    messages = _messages(call.client, row, name, after_id(call), _only(call.query.text("only")))
    return event_stream(call.service, watched(call, messages))


def _only(text: str) -> Only:
    if text not in ("", "completed"):
        raise Problem(400, "BadRequest", f"only={text[:80]!r}: use completed, or leave it out")
    return "completed" if text else None


async def _messages(client: Client, run: RunRow, name: str, after: int, only: Only) -> AsyncGenerator[bytes]:
    async with aclosing(read_shown(client, run, name, after, only)) as parts:
        async for part in parts:
            yield message("part", part, str(part.offset))
    row = await client.store.get(run.id)
    yield message("end", StreamEnd("removed" if row is None else row.status.value))
