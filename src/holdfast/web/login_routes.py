"""The session of the page: signing in, the current user, signing out."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

import msgspec

from holdfast.ports.condition import Diagnosable
from holdfast.web.handler_call import Call
from holdfast.web.identity import Identity
from holdfast.web.service import Service
from holdfast.web.tokens import allows

OPERATE = ("start", "signal", "update", "publish", "approve", "cancel", "pause", "resume", "retry", "trigger")
ADMIN = ("kill", "drop", "replace", "bulk", "raw", "backfill", "remove", "set", "reset")


class SignIn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A token, or a one-time code."""

    token: str | None = None
    code: str | None = None


async def shown(call: Call) -> dict[str, Any]:
    """`GET session`."""
    return await session_json(call.service, call.who)


async def session_json(service: Service, who: Identity) -> dict[str, Any]:
    """The caller and its permissions."""
    client = await service.client()
    engine = client.store.url.partition(":")[0]
    if isinstance(client.store, Diagnosable):
        engine = (await client.store.condition()).engine
    can = (*OPERATE, *ADMIN) if allows(who.role, "admin") else OPERATE if allows(who.role, "operate") else ()
    return {
        "actor": who.name,
        "role": who.role,
        "expires_at": who.expires_at,
        "version": own_version(),
        "store": client.store.url,
        "engine": engine,
        "has_app": not service.app.registry.is_empty,
        "features": ["batches", "limits", "schedules"],
        "now": client.store.clock.now(),
        "can": list(can),
    }


def own_version() -> str:
    for name in ("holdfast-workflows", "holdfast"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return ""
