"""One act on many runs: first a dry run that counts them, then the act, bounded, with progress."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
from starlette.responses import Response

from holdfast.client.audit import audited
from holdfast.client.bulk import MOST, Verb, perform, select
from holdfast.client.selection import filter_of_texts
from holdfast.core.plurals import counted
from holdfast.errors import InvalidInput
from holdfast.ports.runs import Filter
from holdfast.web.act_routes import Body
from holdfast.web.handler_call import Call
from holdfast.web.problems import Problem
from holdfast.web.run_routes import run_json
from holdfast.web.streams import event_stream, message

SAMPLE = 20
EVERY = 25
"""Acts between two progress messages."""


class BulkFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The runs: the parameters of a list."""

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

    verb: Verb
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
        raise InvalidInput(f"limit={given.limit}: give a number between 1 and {MOST}")
    found = await select(call.client, given.verb, _filter(call, given), given.limit)
    count = len(found.ids)
    if given.dry_run:
        views, _ = await call.client.page(Filter(ids=found.ids[:SAMPLE] or ("",)), limit=SAMPLE)
        sample = [run_json(view) for view in views]
        return {"dry_run": True, "matched": count, "is_capped": found.is_capped, "sample": sample}
    if given.expect != count:
        match = "matches" if count == 1 else "match"
        text = f"{counted(count, 'run')} {match} now, and expect says {given.expect}: look again with dry_run"
        raise Problem(409, "Conflict", text)
    audited(call.who.name, f"bulk {given.verb}", detail=counted(count, "run"))
    return event_stream(call.service, _performed(call, given, found.ids))


def _filter(call: Call, given: BulkBody) -> Filter:
    if given.ids is not None:
        return Filter(ids=tuple(given.ids) or ("",))
    asked = given.filter or BulkFilter()
    texts: dict[str, str] = {
        "workflow": asked.workflow,
        "queue": asked.queue,
        "parent": asked.parent,
        "root": asked.root,
        "key": asked.key,
        "worker": asked.worker,
        "status": ",".join(asked.status),
        "since": asked.since,
        "until": asked.until,
        "prefix": asked.q,
    }
    if asked.version is not None:
        texts["version"] = asked.version
    return filter_of_texts(texts, asked.attribute, call.client.store.clock.now())


async def _performed(call: Call, given: BulkBody, ids: tuple[str, ...]) -> AsyncIterator[bytes]:
    problems: list[dict[str, str]] = []
    done = 0
    yield _progress(done, ids, problems)
    async for one in perform(call.client, given.verb, ids, given.reason):
        done += 1
        if one.error is not None:
            problems.append({"run": one.run, "error": type(one.error).__name__, "detail": str(one.error)})
        if done % EVERY == 0:
            if call.service.stopping.is_set() or not call.service.gate.is_valid(call.who):
                return
            yield _progress(done, ids, problems)
    yield message("end", {"done": done, "total": len(ids), "problems": problems})


def _progress(done: int, ids: tuple[str, ...], problems: list[dict[str, str]]) -> bytes:
    return message("progress", {"done": done, "total": len(ids), "failed": len(problems)})
