"""One act on many runs: first a dry run that counts them, then the act, bounded, with its progress."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Literal

import msgspec
from starlette.responses import Response

from holdfast.client.run import ClientRun
from holdfast.core.status import Status, parse_status
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.ports.runs import Filter
from holdfast.web.acts import Body, audited
from holdfast.web.calls import Call
from holdfast.web.problems import Problem
from holdfast.web.queries import read_instant
from holdfast.web.runs import run_json
from holdfast.web.streams import event_stream, message

MOST = 10_000
PAGE = 500
SAMPLE = 20
EVERY = 25
"""Acts between two words on the progress."""


class BulkFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which runs: the parameters of a list."""

    status: list[str] = []
    workflow: str = ""
    version: str | None = None
    queue: str = ""
    parent: str = ""
    root: str = ""
    key: str = ""
    worker: str = ""
    attribute: dict[str, str] = {}
    since: str = ""
    until: str = ""
    q: str = ""


class BulkBody(Body, frozen=True):
    """The act and the runs: by filter, or by their ids."""

    verb: Literal["cancel", "kill", "pause", "resume", "retry"]
    filter: BulkFilter | None = None
    ids: list[str] | None = None
    reason: str = ""
    dry_run: bool = True
    limit: int = 1000
    expect: int | None = None


async def bulk(call: Call) -> dict[str, Any] | Response:
    """`POST runs/bulk`."""
    given = call.given(BulkBody)
    if (given.filter is None) == (given.ids is None):
        raise InvalidInput("give either filter or ids")
    if not 1 <= given.limit <= MOST:
        raise InvalidInput(f"limit={given.limit}: between 1 and {MOST}")
    found, is_capped = await _matched(call, given)
    if given.dry_run:
        views, _ = await call.client.page(Filter(ids=tuple(found[:SAMPLE]) or ("",)), limit=SAMPLE)
        sample = [run_json(view) for view in views]
        return {"dry_run": True, "matched": len(found), "is_capped": is_capped, "sample": sample}
    if given.expect != len(found):
        raise Problem(
            409, "Conflict", f"{len(found)} runs match now, and expect says {given.expect}: look again with dry_run"
        )
    audited(call, f"bulk {given.verb}", detail=f"{len(found)} runs")
    return event_stream(call.service, _performed(call, given, found))


async def _matched(call: Call, given: BulkBody) -> tuple[list[str], bool]:
    """Ids, before anything is done to the first: what is done may change what the filter lets through."""
    which = _filter(call, given)
    found: list[str] = []
    after = ""
    while len(found) <= given.limit:
        page = await call.client.store.list(which, after=after, limit=PAGE)
        found += [row.id for row in page.runs]
        after = page.next
        if not after:
            break
    return found[: given.limit], len(found) > given.limit


def _filter(call: Call, given: BulkBody) -> Filter:
    if given.ids is not None:
        return Filter(ids=tuple(given.ids) or ("",))
    asked, now = given.filter or BulkFilter(), call.client.store.clock.now()
    statuses = tuple(parse_status(word) for word in asked.status) or _possible(given.verb)
    return Filter(
        statuses=statuses,
        workflow=asked.workflow,
        version=asked.version,
        queue=asked.queue,
        parent=asked.parent,
        root=asked.root,
        key=asked.key,
        worker=asked.worker,
        attributes=asked.attribute,
        since=read_instant(asked.since, "since", now) if asked.since else None,
        until=read_instant(asked.until, "until", now) if asked.until else None,
        prefix=asked.q,
    )


def _possible(verb: str) -> tuple[Status, ...]:
    """The statuses an act applies to by default."""
    match verb:
        case "retry":
            return (Status.FAILED, Status.CANCELLED)
        case "resume":
            return (Status.PAUSED,)
        case _:
            return (Status.PENDING, Status.RUNNING, Status.PAUSED)


async def _performed(call: Call, given: BulkBody, found: list[str]) -> AsyncIterator[bytes]:
    problems: list[dict[str, str]] = []
    for done, run_id in enumerate(found):
        if done % EVERY == 0:
            yield message("progress", {"done": done, "total": len(found), "failed": len(problems)})
            if call.service.stopping.is_set() or not call.service.gate.is_valid(call.who):
                break
        try:
            await _verb(ClientRun[Any](call.client, run_id, None), given)()
        except HoldfastError as error:
            problems.append({"run": run_id, "error": type(error).__name__, "detail": str(error)})
        await asyncio.sleep(0)
    else:
        yield message("end", {"done": len(found), "total": len(found), "problems": problems})


def _verb(run: ClientRun[Any], given: BulkBody) -> Callable[[], Awaitable[Any]]:
    match given.verb:
        case "cancel":
            return lambda: run.cancel(given.reason)
        case "kill":
            return lambda: run.kill(given.reason)
        case "pause":
            return lambda: run.pause(given.reason)
        case "resume":
            return run.resume
        case "retry":
            return run.retry
