"""Batches and their items."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.authoring.batch.batch_plan import NAME
from holdfast.client.audit import audited
from holdfast.client.batches import Batch, get_batch
from holdfast.client.items import Item
from holdfast.core.status import Status
from holdfast.errors import Conflict
from holdfast.web.act_routes import ReasonBody, RetryBody
from holdfast.web.answers import json_response
from holdfast.web.handler_call import Call
from holdfast.web.problems import Problem
from holdfast.web.run_routes import bounded, run_json


async def batch_json(call: Call, batch: Batch[Any]) -> dict[str, Any]:
    """A batch as JSON, the same everywhere."""
    plan = batch.plan
    [view] = await call.client.views([await _row(call, batch.id)])
    return {
        "id": batch.id,
        "workflow": plan.workflow,
        "status": view.status.value,
        "concurrency": plan.concurrency,
        "order": plan.order,
        "retries": plan.retries,
        "created_at": view.created_at,
        "ended_at": view.ended_at,
        "run": run_json(view),
        "counts": msgspec.to_builtins(await batch.counts()),
    }


async def _row(call: Call, id: str) -> Any:
    row = await call.client.store.get(id)
    if row is None:
        raise Problem(404, "RunNotFound", f"no batch {id!r}")
    return row


async def _batch(call: Call, *, is_plain: bool = True) -> Batch[Any]:
    try:
        return await get_batch(call.client, call.id, None, is_plain=is_plain)
    except Conflict as error:
        raise Problem(404, "NotFound", str(error)) from error


async def listed(call: Call) -> dict[str, Any]:
    """`GET batches`."""
    query = call.query
    which = msgspec.structs.replace(query.filter(call.client.store.clock.now()), workflow=NAME)
    page = await call.client.store.list(which, after=query.text("after"), limit=query.number("limit", 50, 1, 200))
    found = [await batch_json(call, await get_batch(call.client, row.id, None, is_plain=True)) for row in page.runs]
    return {"batches": found, "next": page.next}


async def one(call: Call) -> dict[str, Any]:
    """`GET batches/{id}`."""
    return await batch_json(call, await _batch(call))


async def items(call: Call) -> dict[str, Any]:
    """`GET batches/{id}/items`."""
    batch, query = await _batch(call), call.query
    after, limit = query.number("after", -1, -1, 2**53), query.number("limit", 100, 1, 1000)
    wanted = set(query.filter(call.client.store.clock.now()).statuses)
    found: list[Item[Any]] = []
    last = after
    async for item in batch.standing(after=after):
        last = item.index
        if not wanted or item.status in wanted:
            found.append(item)
        if len(found) == limit:
            break
    return {
        "items": [_item(item, is_shown=batch.plan.style != "flow") for item in found],
        "next": str(last) if len(found) == limit else "",
    }


def _item(item: Item[Any], *, is_shown: bool) -> dict[str, Any]:
    """An item. The result of a flow may contain secrets, so it is read through its own run."""
    error = "" if item.error is None else str(item.error).partition("\n")[0][:500]
    return {
        "index": item.index,
        "status": item.status.value,
        "run": item.run,
        "result": bounded(item.result) if is_shown and item.status is Status.COMPLETED else None,
        "error": error,
    }


async def cancel(call: Call) -> dict[str, Any]:
    """`POST batches/{id}/cancel`."""
    batch = await _batch(call)
    await batch.cancel(call.given(ReasonBody).reason)
    return await _done(call, batch, "cancel")


async def pause(call: Call) -> dict[str, Any]:
    """`POST batches/{id}/pause`."""
    batch = await _batch(call)
    await batch.pause(call.given(ReasonBody).reason)
    return await _done(call, batch, "pause")


async def resume(call: Call) -> dict[str, Any]:
    """`POST batches/{id}/resume`."""
    batch = await _batch(call)
    await batch.resume()
    return await _done(call, batch, "resume")


async def retry(call: Call) -> Any:
    """`POST batches/{id}/retry`."""
    batch = await _batch(call, is_plain=False)
    made = await batch.retry(id=call.given(RetryBody).id)
    audited(call.who.name, "retry batch", batch.id, made.id)
    return json_response({"batch": await batch_json(call, made)}, 201)


async def _done(call: Call, batch: Batch[Any], verb: str) -> dict[str, Any]:
    audited(call.who.name, f"{verb} batch", batch.id)
    return {"batch": await batch_json(call, batch)}
