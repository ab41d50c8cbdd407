"""Whether a worker is there that serves a new run."""

from __future__ import annotations

import sys

from holdfast.cli.output import Output
from holdfast.client.client import Client


async def warn_without_worker(client: Client, run_id: str, target: str | None) -> None:
    """Says on stderr that no worker serves the run: to wait for one that is not there is a common first mistake."""
    row = await client.store.get(run_id)
    if row is None or row.status.is_terminal:
        return
    wanted = (row.workflow, row.version)
    if any(x.is_live and row.queue in x.queues and wanted in x.definitions for x in await client.store.workers()):
        return
    queue = "" if row.queue == "default" else f" --queue {row.queue}"
    words = f"holdfast worker {target or ''}".rstrip()
    Output(stream=sys.stderr).line(f"run {run_id}: no worker serves it at the moment. Start one: {words}{queue}")
