"""Server-sent events. All streams of a process share one feed (`client.feed`): one look at the store serves them
all.

A stream ends when its reader leaves, when its token is revoked and, with a hint to reconnect later, when the server
stops. The id of each message says what the reader has seen: it continues from there, and nothing is repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

import msgspec
from starlette.responses import StreamingResponse

from holdfast.client.client import Client
from holdfast.client.inspect.lookup import find_run
from holdfast.client.run_errors import check_error, saying, searched
from holdfast.core.redaction import NOTHING_HIDDEN
from holdfast.core.timeline import Timeline
from holdfast.core.turn import decode_row
from holdfast.errors import CorruptJournal
from holdfast.ports.runs import Filter, RunRow, matches
from holdfast.web.answers import encode
from holdfast.web.handler_call import Call
from holdfast.web.queries import ERROR, read_seq
from holdfast.web.run_routes import entries_json, run_json, turn_json
from holdfast.web.service import Service

BEAT = 15.0
"""Seconds after which a silent stream sends a sign of life."""

CHECK = 1.0
"""Seconds between two checks that the reader is still allowed to read."""

MOST_RUNS = 200
"""Maximum runs in one message of a list; if more changed, the reader loads the list again."""

BEHIND = 1000
"""Maximum journal rows that a reconnecting reader may have missed; beyond that it loads everything again."""

UNSAID = -1
"""The position of a new reader. 0 is the position of a reader of an empty store."""

RETRY, LATER = 1000, 3000
"""Milliseconds until a reader that lost its stream reconnects: usually, and while a server restarts."""


def message(event: str, data: Any, id: str = "") -> bytes:
    """One message. JSON contains no line breaks."""
    head = f"id: {id}\n" if id else ""
    return f"event: {event}\n{head}data: ".encode() + encode(data) + b"\n\n"


def event_stream(service: Service, messages: AsyncIterator[bytes]) -> StreamingResponse:
    """The answer that carries a stream."""
    return StreamingResponse(
        _counted(service, messages),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def _counted(service: Service, messages: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    service.streams += 1
    try:
        yield f"retry: {RETRY}\n\n".encode()
        async for one in messages:
            yield one
    finally:
        service.streams -= 1


async def watched(call: Call, messages: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Messages as they come, with signs of life in between, until the stream must end."""
    service = call.service
    silent = 0.0
    async with aclosing(messages):
        coming = asyncio.ensure_future(anext(messages))
        stopping = asyncio.ensure_future(service.stopping.wait())
        try:
            while True:
                await asyncio.wait((coming, stopping), timeout=CHECK, return_when=asyncio.FIRST_COMPLETED)
                if service.stopping.is_set():
                    yield f"retry: {LATER}\n".encode() + message("bye", {"reason": "shutdown"})
                    return
                if not service.gate.is_valid(call.who):
                    yield message("bye", {"reason": "revoked"})
                    return
                if coming.done():
                    try:
                        yield coming.result()
                    except StopAsyncIteration:
                        return
                    silent, coming = 0.0, asyncio.ensure_future(anext(messages))
                    continue
                silent += CHECK
                if silent >= BEAT:
                    silent = 0.0
                    yield b": alive\n\n"
        finally:
            stopping.cancel()
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)


# -- the journal of a run ----------------------------------------------------------------------------------------------


async def journal(call: Call) -> StreamingResponse:
    """`GET runs/{id}/events`."""
    row = await find_run(call.client, call.id)
    await call.client.hidden.of(row)  # a start that cannot be read is an error of the request
    return event_stream(call.service, watched(call, _turns(call.client, call.id, after_id(call))))


def after_id(call: Call) -> int:
    """What the reader has seen; a browser that reconnects sends it."""
    return read_seq(call.last_event_id, "Last-Event-ID", call.query.seq("after", UNSAID))


async def _turns(client: Client, run_id: str, after: int) -> AsyncGenerator[bytes]:
    store, line, read = client.store, Timeline(), 0
    async with client.feeds.of_run(run_id) as news:
        while True:
            row = await store.get(run_id)
            if row is None:
                yield message("end", {"status": "removed"})
                return
            rows = await store.history(run_id, after_seq=read)
            redaction = await client.hidden.of(row) if rows else NOTHING_HIDDEN
            is_news = bool(rows) and rows[-1].seq > after
            # Read after its rows: what the run does now is not older than what the reader is told of.
            [view] = await client.views([await store.get(run_id) or row]) if is_news else [None]
            for stored in rows:
                read = stored.seq
                try:
                    turn = decode_row(stored)
                except CorruptJournal:  # the story says what is wrong
                    continue
                turn = redaction.turn(turn)
                entries = line.take(turn)  # also of what was seen: later rows end what those began
                if stored.seq > after and view is not None:
                    told = {**turn_json(turn, row), "entries": entries_json(entries), "run": run_json(view)}
                    yield message("turn", told, str(stored.seq))
            if not rows:
                if row.status.is_terminal:
                    yield message("end", {"status": row.status.value})
                    return
                await news.wait()


# -- the list of runs --------------------------------------------------------------------------------------------------


async def listed(call: Call) -> StreamingResponse:
    """`GET runs/events`."""
    which = _Listed(call.query.filter(call.client.store.clock.now()), check_error(call.query.text(ERROR)))
    return event_stream(call.service, watched(call, _changes(call.client, which, after_id(call))))


class _Listed(msgspec.Struct, frozen=True):
    """Which runs a reader wants to hear of: those of a filter, and if `error` is given, with that in their error."""

    filter: Filter
    error: str

    async def chosen(self, client: Client, rows: Sequence[RunRow]) -> list[RunRow]:
        """Those of the runs that are meant."""
        if not self.error:
            return [row for row in rows if matches(row, self.filter)]
        which = searched(self.filter)
        found = [row for row in rows if matches(row, which)]
        said = await saying(client.store, found, self.error)
        return [row for row in found if row.no in said]


async def _changes(client: Client, which: _Listed, after: int) -> AsyncGenerator[bytes]:
    async with client.feeds.of_all() as reader:
        if UNSAID < after < reader.seq:
            yield await _missed(client, which, after, reader.seq)
        else:
            yield message("hello", {"seq": str(reader.seq)}, str(max(after, reader.seq)))
        question, after = repr(which), max(after, reader.seq)
        while True:
            news = await reader.next()
            if news.is_cut:
                yield message("reset", {"seq": str(news.seq)}, str(news.seq))
            elif news.seq > after:
                yield await news.once(question, partial(_told, client, which, news.rows, news.seq))


async def _missed(client: Client, which: _Listed, after: int, until: int) -> bytes:
    """What happened while the reader was away."""
    found = await client.store.news(after_seq=after, limit=BEHIND)
    if len(found) == BEHIND:
        return message("reset", {"seq": str(until)}, str(until))
    ids = tuple(dict.fromkeys(run for _, run in found))
    rows = (await client.store.list(Filter(ids=ids), limit=BEHIND)).runs if ids else []
    return await _told(client, which, rows, max(until, found[-1][0]) if found else until)


async def _told(client: Client, which: _Listed, rows: Sequence[RunRow], seq: int) -> bytes:
    if len(rows) > MOST_RUNS:
        return message("reset", {"seq": str(seq)}, str(seq))
    matching = await which.chosen(client, rows)
    views = await client.views(matching)
    shown = {view.id for view in views}
    gone = [row.id for row in rows if row.id not in shown]
    told: dict[str, Any] = {"seq": str(seq), "runs": [run_json(view) for view in views], "gone": gone}
    return message("runs", told, str(seq))
