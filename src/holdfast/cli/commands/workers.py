"""`holdfast workers`: lists the workers of a store and what they hold."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click
import msgspec

from holdfast.cli.options import store_options
from holdfast.cli.output import Output, Part, ago_text
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.cli.targets import opened_app
from holdfast.client.inspect.objects import at_text
from holdfast.ports.leases import WorkerRow
from holdfast.stores import lease_service_findings


@click.command("workers", cls=HoldfastCommand)
@store_options("One object per line.")
@click.option("--all", "is_all", is_flag=True, help="Include workers that have gone, as long as the store knows them.")
def command(target: str | None, url: str | None, is_json: bool, is_all: bool) -> None:
    """List workers: whether they are alive, the runs they hold, their queues, host and process, and what they serve.

    On a terminal also what the lease manager says, if etcd or NATS grants leases.

    In a pipe one line each, tab-separated: id, live or gone, runs held, queues, host, pid, started (UTC), workflows.
    """
    run_async(_list(target, url, Output(is_json=is_json), is_all=is_all))


async def _list(target: str | None, url: str | None, out: Output, *, is_all: bool) -> None:
    async with opened_app(target, url) as app:
        client = await app.client()
        found = [x for x in await client.store.workers() if is_all or x.is_live or x.active]
        now = client.store.clock.now()
        leases = await lease_service_findings(app.config.leases, client) if out.is_terminal else []
    if out.is_json:
        for worker in found:
            shown: dict[str, Any] = msgspec.to_builtins(worker)
            out.record(shown)
    elif out.is_terminal:
        rows: list[tuple[Part, ...]] = [
            (x.worker, _state(x, now), str(x.active), ",".join(x.queues), f"{x.host} {x.pid}", _up(x, now), serves(x))
            for x in found
        ]
        if rows:
            out.table(("WORKER", "STATE", "RUNS", "QUEUES", "WHERE", "UP", "SERVES"), rows)
        else:
            out.line(("no live worker; start one: holdfast worker MODULE:APP", "dim"))
        for finding in leases:
            out.line(f"{finding.check}: {finding.text}")
    else:
        out.table((), [(x.worker, "live" if x.is_live else "gone", str(x.active), ",".join(x.queues), x.host,
                        str(x.pid), at_text(x.started_at), serves(x)) for x in found])  # fmt: skip


def serves(worker: WorkerRow) -> str:
    """Its definitions, without Holdfast's own, which every worker serves."""
    named = [pair for pair in worker.definitions if not pair[0].startswith("holdfast.")]
    return ", ".join(sorted(f"{name} {version}".rstrip() for name, version in named))


def _state(worker: WorkerRow, now: datetime) -> Part:
    if worker.is_live:
        return "live", "green"
    if worker.seen_at is None:
        return "gone", "yellow"
    return f"gone, seen {ago_text(now - worker.seen_at)} ago", "yellow"


def _up(worker: WorkerRow, now: datetime) -> str:
    """How long a worker has been up; empty for one that is gone, since the store does not know when it went."""
    return ago_text(now - worker.started_at) if worker.is_live else "-"
