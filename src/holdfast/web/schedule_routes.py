"""Schedules: when each starts its workflow, the outcomes of its last slots, and commands to change them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
from starlette.responses import Response

from holdfast.client import schedules
from holdfast.client.audit import audited
from holdfast.client.schedules import ScheduleHandle, ScheduleView, view_of
from holdfast.core.ids import check_text
from holdfast.core.plurals import counted
from holdfast.errors import CorruptJournal, InvalidInput
from holdfast.ports.leases import live_instances
from holdfast.ports.runs import Filter
from holdfast.schedules.slot_run import ATTRIBUTE
from holdfast.web.act_routes import Body, ReasonBody
from holdfast.web.handler_call import Call
from holdfast.web.queries import read_instant
from holdfast.web.run_routes import run_json

MOST_SLOTS = 1000
"""Maximum slots that one request starts."""


class TriggerBody(Body, frozen=True):
    """The same id starts one run: after a lost answer, ask again with it."""

    id: str | None = None


class BackfillBody(Body, frozen=True):
    """The range: instants, or how long ago (`3d`). A range with more slots than `most` starts nothing."""

    since: str
    until: str = ""
    most: int = 100


def schedule_json(view: ScheduleView, last_status: str = "") -> dict[str, Any]:
    """A schedule as JSON, the same everywhere. Instants are in UTC; a last run that is no longer kept has no status."""
    return {
        **msgspec.to_builtins(view),
        "next": _utc(view.next),
        "last": _utc(view.last),
        "upcoming": [_utc(slot) for slot in view.upcoming],
        "last_status": last_status,
    }


def _utc(at: datetime | None) -> datetime | None:
    return None if at is None else at.astimezone(UTC)


async def listed(call: Call) -> dict[str, Any]:
    """`GET schedules`. A row that cannot be read is named under `problems` and hides no other."""
    store, query = call.client.store, call.query
    limit = query.number("limit", 100, 1, 500)
    page = await store.schedules(after=query.text("after"), limit=limit)
    live = await live_instances(store)
    views: list[ScheduleView] = []
    problems: list[str] = []
    for stored in page:
        try:
            views.append(view_of(stored, live))
        except CorruptJournal as error:
            problems.append(str(error))
    statuses = await _last_statuses(call, views)
    return {
        "schedules": [schedule_json(view, statuses.get(view.last_run, "")) for view in views],
        "problems": problems,
        "next": page[-1].name if len(page) == limit else "",
    }


async def _last_statuses(call: Call, views: list[ScheduleView]) -> dict[str, str]:
    ids = tuple(view.last_run for view in views if view.last_run)
    if not ids:
        return {}
    found = await call.client.store.list(Filter(ids=ids), limit=len(ids))
    return {row.id: row.status.value for row in found.runs}


async def one(call: Call) -> dict[str, Any]:
    """`GET schedules/{name}`."""
    handle = await _handle(call)
    limit = call.query.number("limit", 10, 1, 100)
    runs, _ = await call.client.page(Filter(attributes={ATTRIBUTE: handle.name}), limit=limit)
    return {"schedule": await _shown(call, handle), "runs": [run_json(view) for view in runs]}


async def pause(call: Call) -> dict[str, Any]:
    """`POST schedules/{name}/pause`."""
    handle = await _handle(call)
    await handle.pause(call.given(ReasonBody).reason)
    audited(call.who.name, "schedules pause", detail=handle.name)
    return {"schedule": await _shown(call, handle)}


async def resume(call: Call) -> dict[str, Any]:
    """`POST schedules/{name}/resume`."""
    handle = await _handle(call)
    await handle.resume()
    audited(call.who.name, "schedules resume", detail=handle.name)
    return {"schedule": await _shown(call, handle)}


async def trigger(call: Call) -> dict[str, Any]:
    """`POST schedules/{name}/trigger`. With a buffering overlap the run is there when the earlier one has ended."""
    handle = await _handle(call)
    run = await handle.trigger(id=call.given(TriggerBody).id)
    audited(call.who.name, "schedules trigger", run.id)
    return {"schedule": await _shown(call, handle), "run": run.id}


async def backfill(call: Call) -> dict[str, Any]:
    """`POST schedules/{name}/backfill`."""
    given, now = call.given(BackfillBody), call.client.store.clock.now()
    if not 1 <= given.most <= MOST_SLOTS:
        raise InvalidInput(f"most={given.most}: give between 1 and {MOST_SLOTS:,} slots over HTTP")
    since = read_instant(given.since, "since", now)
    until = read_instant(given.until, "until", now) if given.until else now
    if since >= until:
        raise InvalidInput("since must lie before until")
    handle = await _handle(call)
    slots = [slot async for slot in handle.backfill(since, until, most=given.most)]
    audited(call.who.name, "schedules backfill", detail=f"{handle.name}, {counted(len(slots), 'slot')}")
    found = [{"at": _utc(slot.at), "run": slot.run, "fate": slot.fate} for slot in slots]
    return {"schedule": await _shown(call, handle), "slots": found}


async def remove(call: Call) -> Response:
    """`DELETE schedules/{name}`."""
    handle = await _handle(call)
    await handle.remove()
    audited(call.who.name, "schedules remove", detail=handle.name)
    return Response(status_code=204)


async def _handle(call: Call) -> ScheduleHandle[Any]:
    return await schedules.get(call.client, check_text(call.path["name"], "the name of a schedule"), None)


async def _shown(call: Call, handle: ScheduleHandle[Any]) -> dict[str, Any]:
    view = await handle.view()
    return schedule_json(view, (await _last_statuses(call, [view])).get(view.last_run, ""))
