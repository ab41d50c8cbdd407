"""Workflows, workers, and problems."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from holdfast.client.client import Client
from holdfast.client.inspect.findings import store_findings
from holdfast.client.inspect.room import read_room, room_object
from holdfast.client.manifests import manifest
from holdfast.core.recovery import decode_recovery
from holdfast.core.status import Status
from holdfast.ports.condition import Backlog, Diagnosable
from holdfast.ports.leases import WorkerRow
from holdfast.ports.runs import Filter
from holdfast.stores import lease_service_findings, lease_service_report
from holdfast.web.handler_call import Call
from holdfast.web.run_routes import CAP, run_json

OPEN = (Status.PENDING, Status.RUNNING, Status.PAUSED)
ENDED = (Status.COMPLETED, Status.FAILED, Status.CANCELLED)
OBSERVED = 20
LOOKED_AT = 1000
"""Number of ends from which percentiles are computed."""

RECENT, HELD, PAGE = 50, 20, 500
COMPARED = 200
"""Maximum grants of a lease manager that are compared with the store for the page."""


async def workflows(call: Call) -> dict[str, Any]:
    """`GET workflows`."""

    async def ask() -> dict[str, Any]:
        app, client = call.service.app, call.client
        told = await manifest(app.registry, app.settings.step_retry, client, OBSERVED)
        shown = told.to_json()
        workers = await client.store.workers()
        waiting = await _backlog(client)
        for entry in shown["workflows"]:
            entry["in_flight"] = await _in_flight(client, entry["name"], workers, waiting, entry["version"])
        return shown

    return await call.service.kept("workflows", ask)


async def _in_flight(
    client: Client, name: str, workers: Sequence[WorkerRow], waiting: Sequence[Backlog], version: str
) -> list[dict[str, Any]]:
    """Open runs by version, for versions that this app, a worker or a waiting run knows."""
    served = {one for worker in workers if worker.is_live for workflow, one in worker.definitions if workflow == name}
    versions = {version, *served, *(one.version for one in waiting if one.workflow == name)}
    found: list[dict[str, Any]] = []
    for one in sorted(versions):
        counts = await client.store.tally(Filter(workflow=name, version=one, statuses=OPEN), at_most=CAP)
        total = sum(counts.values())
        is_capped = any(count >= CAP for count in counts.values())
        found.append({"version": one, "count": total, "is_capped": is_capped, "is_served": one in served})
    return found


async def stats(call: Call) -> dict[str, Any]:
    """`GET workflows/stats`."""
    name, query = call.query.text("workflow"), call.query
    version = query.text("version") if "version" in query.names() else None
    store = call.client.store

    async def ask() -> dict[str, Any]:
        page = await store.list(Filter(workflow=name, version=version, statuses=ENDED), limit=LOOKED_AT)
        ended = [row for row in page.runs if row.ended_at is not None]
        by_status = {status: sum(row.status is status for row in ended) for status in ENDED}
        took = sorted(
            (row.ended_at - (row.started_at or row.created_at)).total_seconds()
            for row in ended
            if row.status is Status.COMPLETED and row.ended_at is not None
        )
        return {
            "workflow": name,
            "version": version,
            "ended": len(ended),
            **{status.value: count for status, count in by_status.items()},
            "success_rate": by_status[Status.COMPLETED] / len(ended) if ended else None,
            "p50_seconds": _percentile(took, 0.50),
            "p95_seconds": _percentile(took, 0.95),
            "p99_seconds": _percentile(took, 0.99),
            "recent": [
                {
                    "at": row.ended_at,
                    "status": row.status.value,
                    "seconds": (row.ended_at - (row.started_at or row.created_at)).total_seconds(),
                    "run": row.id,
                }
                for row in ended[:RECENT]
                if row.ended_at is not None
            ],
        }

    return await call.service.kept(("stats", name, version), ask)


def _percentile(values: Sequence[float], part: float) -> float | None:
    return values[min(len(values) - 1, int(part * len(values)))] if values else None


async def overview(call: Call) -> dict[str, Any]:
    """`GET overview`. Queues and batches are not counted: that would read every run that waits."""

    async def ask() -> dict[str, Any]:
        client = call.client
        live = sum(worker.is_live for worker in await client.store.workers())
        return {
            "workflows": sum(not spec.is_internal for spec in call.service.app.registry),
            "workers": live,
            "limits": await _count(client.store.limits),
            "schedules": await _count(client.store.schedules),
        }

    return await call.service.kept("overview", ask)


async def _count(listed: Callable[..., Awaitable[Sequence[Any]]]) -> int:
    """How many there are in all, read a page at a time."""
    total, after = 0, ""
    while page := await listed(after=after, limit=PAGE):
        total, after = total + len(page), page[-1].name
        if len(page) < PAGE:
            break
    return total


async def workers(call: Call) -> dict[str, Any]:
    """`GET workers`."""
    is_all = call.query.flag("all")
    found = [x for x in await call.client.store.workers() if is_all or x.is_live or x.active]
    return {"workers": [await _worker(call.client, worker) for worker in found]}


async def _worker(client: Client, worker: WorkerRow) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(worker)
    met = decode_recovery(worker.recovery)
    shown["recovery"] = {"counts": {}, "recent": [], "taken": [], "left": [], **msgspec.to_builtins(met)}
    held: list[dict[str, Any]] = []
    if worker.active:
        which = Filter(worker=worker.worker, statuses=(Status.PENDING, Status.RUNNING))
        page = await client.store.list(which, limit=HELD)
        rows = [row for row in page.runs if row.instance == worker.instance]
        held = [run_json(view) for view in await client.views(rows)]
    return {**shown, "holds": held}


async def leases(call: Call) -> dict[str, Any]:
    """`GET leases`."""

    async def ask() -> dict[str, Any]:
        report = await lease_service_report(call.service.app.config.leases, call.client, most=COMPARED)
        shown: dict[str, Any] = msgspec.to_builtins(report)
        return shown

    return await call.service.kept("leases", ask)


async def _backlog(client: Client) -> Sequence[Backlog]:
    return await client.store.backlog() if isinstance(client.store, Diagnosable) else ()


async def doctor(call: Call) -> dict[str, Any]:
    """`GET doctor`."""

    async def ask() -> dict[str, Any]:
        found = [finding async for finding in store_findings(call.client)]
        found += await lease_service_findings(call.service.app.config.leases, call.client)
        return {"ok": all(one.state != "problem" for one in found), "findings": msgspec.to_builtins(found)}

    return await call.service.kept("doctor", ask)


async def space(call: Call) -> dict[str, Any]:
    """`GET space`."""
    app, client = call.service.app, call.client

    async def ask() -> dict[str, Any]:
        return room_object(await read_room(client, app.settings.keep, app.config.upkeep.blob_grace, largest=10))

    return await call.service.kept("space", ask, 60)
