"""Limits: what runs and waits under each, and commands to change them."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.client import limits
from holdfast.client.audit import audited
from holdfast.client.limits import BusyLineView, LimitView
from holdfast.core.ids import check_text
from holdfast.web.act_routes import Body, ReasonBody
from holdfast.web.handler_call import Call

RECENT = 1.0
"""Seconds for which an answer is kept, however many pages are open."""


class LimitBody(Body, frozen=True):
    """What the limit allows from now on; fields that are not given stay."""

    rate: str | None = None
    burst: int | None = None
    at_once: int | None = None


async def listed(call: Call) -> dict[str, Any]:
    """`GET limits`."""

    async def ask() -> dict[str, Any]:
        return {"limits": [msgspec.to_builtins(view) async for view in limits.views(call.client)]}

    return await call.service.kept("limits", ask, RECENT)


async def one(call: Call) -> dict[str, Any]:
    """`GET limits/{name}`: with the keys that most wait for, and its keys by name, those after `after`."""
    name, query = _name(call), call.query
    size = query.number("limit", 100, 1, 500)
    keys = await limits.keys(call.client, name, after=query.text("after") or None, limit=size)
    return {
        "limit": msgspec.to_builtins(await limits.view(call.client, name)),
        "busiest": msgspec.to_builtins(await _busiest(call, name)),
        "keys": msgspec.to_builtins(keys),
        "next": keys[-1].key if len(keys) == size else "",
    }


async def _busiest(call: Call, name: str) -> list[BusyLineView]:
    return await call.service.kept(("busiest", name), lambda: limits.busiest(call.client, name), RECENT)


async def set_rule(call: Call) -> dict[str, Any]:
    """`POST limits/{name}/set`."""
    given = call.given(LimitBody)
    view = await limits.set_rule(call.client, _name(call), rate=given.rate, burst=given.burst, at_once=given.at_once)
    return _done(call, "set", view)


async def reset(call: Call) -> dict[str, Any]:
    """`POST limits/{name}/reset`."""
    return _done(call, "reset", await limits.reset(call.client, _name(call)))


async def pause(call: Call) -> dict[str, Any]:
    """`POST limits/{name}/pause`."""
    return _done(call, "pause", await limits.pause(call.client, _name(call), call.given(ReasonBody).reason))


async def resume(call: Call) -> dict[str, Any]:
    """`POST limits/{name}/resume`."""
    return _done(call, "resume", await limits.resume(call.client, _name(call)))


def _done(call: Call, verb: str, view: LimitView) -> dict[str, Any]:
    audited(call.who.name, f"limits {verb}", detail=view.name)
    call.service.forget("limits")
    return {"limit": msgspec.to_builtins(view)}


def _name(call: Call) -> str:
    return check_text(call.path["name"], "the name of a limit")
