"""Queues: what waits, what has begun, what holds runs back, and commands to change them."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from holdfast.client import queues
from holdfast.client.audit import audited
from holdfast.client.queues import QueueView
from holdfast.core.ids import check_text
from holdfast.core.status import Status
from holdfast.ports.runs import Filter
from holdfast.web.act_routes import Body, ReasonBody
from holdfast.web.handler_call import Call

CAP = 10_000


class RulesBody(Body, frozen=True):
    """The rules to set, until they are reset. Fields that are not given stay; null means no limit."""

    at_once: int | msgspec.UnsetType | None = msgspec.UNSET
    per_worker: int | msgspec.UnsetType | None = msgspec.UNSET
    rate: str | msgspec.UnsetType | None = msgspec.UNSET
    shares: dict[str, float] | msgspec.UnsetType | None = msgspec.UNSET
    share_at_once: int | msgspec.UnsetType | None = msgspec.UNSET
    parked: Literal["holds", "frees"] | msgspec.UnsetType | None = msgspec.UNSET


async def listed(call: Call) -> dict[str, Any]:
    """`GET queues`."""

    async def ask() -> dict[str, Any]:
        return {"queues": [await _shown(call, view) for view in await queues.queue_views(call.client)]}

    return await call.service.kept("queues", ask)


async def one(call: Call) -> dict[str, Any]:
    """`GET queues/{name}`."""
    return await _answer(call)


async def pause(call: Call) -> dict[str, Any]:
    """`POST queues/{name}/pause`."""
    await queues.pause_queue(call.client, _name(call), call.given(ReasonBody).reason)
    return await _done(call, "pause")


async def resume(call: Call) -> dict[str, Any]:
    """`POST queues/{name}/resume`."""
    await queues.resume_queue(call.client, _name(call))
    return await _done(call, "resume")


async def set_rules(call: Call) -> dict[str, Any]:
    """`POST queues/{name}/set`."""
    given = msgspec.structs.asdict(call.given(RulesBody))
    rules = {what: value for what, value in given.items() if value is not msgspec.UNSET}
    await queues.set_rules(call.client, _name(call), **rules)
    return await _done(call, "set")


async def reset(call: Call) -> dict[str, Any]:
    """`POST queues/{name}/reset`."""
    await queues.reset_rules(call.client, _name(call))
    return await _done(call, "reset")


async def _done(call: Call, verb: str) -> dict[str, Any]:
    audited(call.who.name, f"queues {verb}", detail=_name(call))
    call.service.forget("queues")
    return await _answer(call)


async def _answer(call: Call) -> dict[str, Any]:
    return {"queue": await _shown(call, await queues.queue_view(call.client, _name(call)))}


async def _shown(call: Call, view: QueueView) -> dict[str, Any]:
    """A queue with the number of its runs by status, up to `CAP`."""
    which = Filter(queue=view.name, statuses=(Status.RUNNING, Status.PAUSED))
    counts = await call.client.store.tally(which, at_most=CAP)
    return {
        **queues.view_object(view),
        "running": counts[Status.RUNNING],
        "paused": counts[Status.PAUSED],
        "capped": [status.value for status, count in counts.items() if count >= CAP],
    }


def _name(call: Call) -> str:
    return check_text(call.path["name"], "the name of a queue")
