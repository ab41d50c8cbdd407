"""Runs: lists, counts, spread over time, one run, its story and its journal."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import msgspec
from starlette.responses import Response

from holdfast.authoring.handle import RunView
from holdfast.client.inspect.lookup import find_run
from holdfast.client.inspect.objects import entry_object, event_object, run_detail, run_object, story_object
from holdfast.client.inspect.story import read_story
from holdfast.core.entry import Entry
from holdfast.core.status import Status
from holdfast.core.turn import Turn, decode_row
from holdfast.errors import BlobNotFound, CorruptJournal
from holdfast.ports.runs import Filter, RunRow
from holdfast.web.handler_call import Call
from holdfast.web.problems import Problem
from holdfast.web.queries import ERROR
from holdfast.web.tokens import allows

CAP = 10_000
SPREAD_CAP = 50_000
LARGE = 64 * 1024
"""Maximum bytes of JSON of a value in the answer; a larger one is fetched separately."""


def run_json(view: RunView) -> dict[str, Any]:
    """A run as JSON, the same everywhere."""
    shown = run_object(view)
    shown["doing"] = {"now": [], "more": 0, **shown["doing"]}
    return shown


def turn_json(turn: Turn, row: RunRow) -> dict[str, Any]:
    """A journal row of that run. Numbers that JavaScript cannot hold are strings."""
    events = [
        {**event_object(event, turn, row.id, row.root), "seq": str(turn.seq), "index": at}
        for at, event in enumerate(turn.events)
    ]
    head = {"seq": str(turn.seq), "ordinal": turn.ordinal, "epoch": turn.epoch, "at": turn.at}
    return {**head, "events": events}


def entries_json(entries: list[Entry]) -> list[dict[str, Any]]:
    return [entry_object(entry) for entry in entries]


async def listed(call: Call) -> dict[str, Any]:
    """`GET runs`."""
    client, query = call.client, call.query
    which = query.filter(client.store.clock.now())
    seq = await client.store.final_seq()
    limit = query.number("limit", 100, 1, 500)
    views, after, looked_at = await client.look(which, after=query.text("after"), limit=limit, error=query.text(ERROR))
    return {"runs": [run_json(view) for view in views], "next": after, "seq": str(seq), "looked_at": looked_at}


async def children(call: Call) -> dict[str, Any]:
    """`GET runs/{id}/children`."""
    await find_run(call.client, call.id)
    limit = call.query.number("limit", 100, 1, 500)
    views, after = await call.client.page(Filter(parent=call.id), after=call.query.text("after"), limit=limit)
    return {"runs": [run_json(view) for view in views], "next": after}


async def counts(call: Call) -> dict[str, Any]:
    """`GET runs/counts`."""
    store = call.client.store
    which = msgspec.structs.replace(_steady(call), statuses=())
    found = await call.service.kept(("counts", repr(which)), lambda: store.tally(which, at_most=CAP))
    return {
        "counts": {status.value: count for status, count in found.items()},
        "capped": [status.value for status, count in found.items() if count >= CAP],
        "cap": CAP,
    }


async def histogram(call: Call) -> dict[str, Any]:
    """`GET runs/histogram`."""
    store, query = call.client.store, call.query
    which = _steady(call)
    until = which.until or _second(call)
    since = which.since or until - timedelta(days=1)
    buckets = query.number("buckets", 60, 1, 200)
    if since >= until:
        raise Problem(400, "BadRequest", "since must lie before until")
    width = max((until - since) / buckets, timedelta(milliseconds=1))
    plain = msgspec.structs.replace(which, since=None, until=until)
    found = await call.service.kept(
        ("spread", repr(plain), query.text("since"), query.text("until"), buckets),
        lambda: store.spread(plain, since=since, width=width, buckets=buckets, at_most=SPREAD_CAP),
    )
    return {
        "since": since,
        "until": until,
        "width_seconds": width.total_seconds(),
        "is_capped": found.is_capped,
        "cap": SPREAD_CAP,
        "buckets": [
            {"at": since + width * number, **{status.value: bucket[status] for status in Status}}
            for number, bucket in enumerate(found.buckets)
        ],
    }


def _steady(call: Call) -> Filter:
    """The filter with "now" rounded to a second, so that equal questions within a second are equal."""
    return call.query.filter(_second(call))


def _second(call: Call) -> datetime:
    """The end of the current second."""
    return call.client.store.clock.now().replace(microsecond=0) + timedelta(seconds=1)


async def one(call: Call) -> dict[str, Any]:
    """`GET runs/{id}`."""
    story = await read_story(call.client, call.id)
    return {"run": run_json(story.view), **_bounded(run_detail(story))}


async def story(call: Call) -> dict[str, Any]:
    """`GET runs/{id}/story`."""
    told = await read_story(call.client, call.id)
    shown = story_object(told)
    shown["children"] = [run_json(child) for child in told.children]
    spec = call.service.app.registry.declared(told.view.workflow, told.view.version)
    return {
        "run": run_json(told.view),
        **_bounded(run_detail(told)),
        **shown,
        "children_next": told.children_next,
        "seq": str(told.seq),
        "streams": dict(await call.client.store.streams_of(call.id)),
        "plan": spec.style if spec is not None else "",
    }


def _bounded(detail: dict[str, Any]) -> dict[str, Any]:
    for name in ("input", "result"):
        detail[name] = bounded(detail[name])
    detail["exposed"] = {name: bounded(value) for name, value in detail["exposed"].items()}
    return detail


def bounded(value: Any) -> Any:
    """A value, or its size if it must be fetched separately."""
    size = len(msgspec.json.encode(value))
    return value if size <= LARGE else {"$large": True, "size": size}


async def value(call: Call) -> Response:
    """`GET runs/{id}/value`: one whole value, however large."""
    told = await read_story(call.client, call.id)
    which = call.query.text("of", "input")
    known = {"input": told.input, "result": told.result}
    if which.startswith("exposed:"):
        name = which.removeprefix("exposed:")
        if name not in told.exposed:
            raise Problem(404, "NotFound", f"run {call.id} shows no value {name!r}")
        return Response(msgspec.json.encode(told.exposed[name]), media_type="application/json")
    if which not in known:
        raise Problem(400, "BadRequest", f"of={which!r}: use input, result or exposed:NAME")
    return Response(msgspec.json.encode(known[which]), media_type="application/json")


async def values(call: Call) -> dict[str, Any]:
    """`GET runs/{id}/values`."""
    row = await find_run(call.client, call.id)
    store = call.client.store
    found: dict[str, Any] = {}
    exposures = await store.exposures(call.id)
    redaction = await call.client.hidden.of(row)
    for name, data, blob in exposures:
        found[name] = bounded(redaction.value(msgspec.json.decode(await store.get_blob(blob) if blob else data)))
    return {"values": found}


async def journal(call: Call) -> dict[str, Any]:
    """`GET runs/{id}/journal`. A row that cannot be read says so in its place."""
    store, limit = call.client.store, call.query.number("limit", 200, 1, 1000)
    row = await find_run(call.client, call.id)
    rows = await store.history(call.id, after_seq=call.query.seq("after"), limit=limit)
    redaction = await call.client.hidden.of(row)
    turns: list[dict[str, Any]] = []
    whose = {"run": row.id, "root": row.root}
    for stored in rows:
        try:
            turn = decode_row(stored)
            turns.append({**whose, **turn_json(redaction.turn(turn), row)})
        except CorruptJournal as error:
            head = {"seq": str(stored.seq), "ordinal": stored.ordinal, "epoch": stored.epoch, "at": None}
            turns.append({**whose, **head, "events": [], "problem": str(error)})
    last = str(rows[-1].seq) if rows else call.query.text("after", "0")
    return {"turns": turns, "next": last if len(rows) == limit else "", "seq": last}


async def blob(call: Call) -> Response:
    """`GET runs/{id}/blob`: a payload that the run's journal names, redacted; raw for admins."""
    store, name = call.client.store, call.query.text("name")
    row = await find_run(call.client, call.id)
    if not await _names(call, name):
        raise BlobNotFound(f"run {call.id} refers to no blob {name[:80]!r}")
    data = await store.get_blob(name)
    if call.query.flag("raw"):
        if not allows(call.who.role, "admin"):
            raise Problem(403, "Forbidden", "raw blobs are for the role admin")
        headers = {"Content-Disposition": 'attachment; filename="blob"'}
        return Response(data, headers=headers, media_type="application/octet-stream")
    redaction = await call.client.hidden.of(row)
    try:
        shown = redaction.value(msgspec.json.decode(data))
    except msgspec.MsgspecError:
        raise Problem(404, "NotFound", "this blob is not a payload; raw=1 returns its bytes") from None
    return Response(msgspec.json.encode(shown), media_type="application/json")


async def _names(call: Call, name: str) -> bool:
    """Whether the journal or the exposed values of the run refer to the blob."""
    store, after = call.client.store, 0
    if any(blob == name for _, _, blob in await store.exposures(call.id)):
        return True
    while rows := await store.history(call.id, after_seq=after):
        for row in rows:
            with suppress(CorruptJournal):
                if any(getattr(event, "blob", "") == name for event in decode_row(row).events):
                    return True
        after = rows[-1].seq
    return False
