"""One act on many runs. The runs are chosen first, then each is acted on; a run that refuses does not stop the others.
The command line and the HTTP API share this."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from msgspec.structs import replace

from holdfast.client.client import Client
from holdfast.client.client_run import ClientRun
from holdfast.core.status import Status
from holdfast.errors import HoldfastError
from holdfast.ports.runs import Filter

Verb: TypeAlias = Literal["cancel", "kill", "pause", "resume", "retry"]

MOST = 10_000
"""Maximum number of runs of one act."""

PAGE = 500

_OPEN = (Status.PENDING, Status.RUNNING, Status.PAUSED)
_POSSIBLE: dict[Verb, tuple[Status, ...]] = {
    "cancel": _OPEN,
    "kill": _OPEN,
    "pause": (Status.PENDING, Status.RUNNING),
    "resume": (Status.PAUSED,),
    "retry": (Status.FAILED, Status.CANCELLED),
}


@dataclass(frozen=True)
class Selected:
    """The selected ids, newest first. `is_capped`: there are more."""

    ids: tuple[str, ...]
    is_capped: bool


@dataclass(frozen=True)
class Done:
    """The outcome for one run: an error if it refused, the new run if there is one."""

    run: str
    error: HoldfastError | None = None
    new_run: str = ""


async def select(client: Client, verb: Verb, which: Filter, limit: int) -> Selected:
    """The ids, chosen before the first run is changed, since an act may change what the filter matches. A filter
    without a status means runs to which the act applies."""
    if not which.statuses and not which.ids:
        which = replace(which, statuses=_POSSIBLE[verb])
    found: list[str] = []
    after = ""
    while len(found) <= limit:
        page = await client.store.list(which, after=after, limit=PAGE)
        found += [row.id for row in page.runs]
        after = page.next
        if not after:
            break
    return Selected(tuple(found[:limit]), len(found) > limit)


async def perform(client: Client, verb: Verb, ids: Sequence[str], reason: str = "") -> AsyncIterator[Done]:
    """Acts on one run after the other."""
    for run_id in ids:
        try:
            yield Done(run_id, new_run=await act(ClientRun[Any](client, run_id, None), verb, reason))
        except HoldfastError as error:
            yield Done(run_id, error)
        await asyncio.sleep(0)


async def act(run: ClientRun[Any], verb: Verb, reason: str = "") -> str:
    """Acts on one run. Returns the id of the new run of a retry."""
    match verb:
        case "cancel":
            await run.cancel(reason)
        case "kill":
            await run.kill(reason)
        case "pause":
            await run.pause(reason)
        case "resume":
            await run.resume()
        case "retry":
            return (await run.retry()).id
    return ""
