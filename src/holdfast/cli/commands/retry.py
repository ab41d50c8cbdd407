"""`holdfast retry`: retries ended runs as new runs."""

from __future__ import annotations

from typing import Any

import click

from holdfast.cli.acts import Request, act, act_options
from holdfast.cli.options import find_run
from holdfast.cli.output import Output
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.cli.targets import opened_client
from holdfast.client.audit import audited
from holdfast.client.client_run import ClientRun


@click.command("retry", cls=HoldfastCommand)
@act_options
@click.option("--id", "new_id", metavar="ID", help="Id of the new run, if one run is retried.")
def command(is_json: bool, new_id: str | None, **options: Any) -> int:
    """Retry ended runs as new runs: same input, and completed steps are taken over, not run again.

    Prints the ids of the new runs. A filter that names no status means failed and cancelled runs.

    \b
      holdfast retry order-42
      holdfast retry --filter status=failed --filter since=2h --dry-run
    """
    asked, out = Request("retry", **options), Output(is_json=is_json)
    if new_id is None:
        return run_async(act(asked, out))
    if len(asked.ids) != 1 or asked.is_dry:
        raise click.UsageError("--id is the id of one new run: give one RUN, and no --dry-run")
    run_async(_retry(asked, new_id, out))
    return 0


async def _retry(asked: Request, new_id: str, out: Output) -> None:
    [run_id] = asked.ids
    async with opened_client(asked.target, asked.url, asked.actor) as client:
        await find_run(client, run_id)
        made = await ClientRun[Any](client, run_id, None).retry(id=new_id)
        audited(client.actor, "retry", run_id, made.id)
    out.record({"run": made.id, "retried_from": run_id}) if out.is_json else out.line(made.id)
