"""`holdfast retry`: an ended run, once more as a new one."""

from __future__ import annotations

from typing import Any

import click

from holdfast.cli.options import find_run, store_options
from holdfast.cli.output import Output
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.cli.targets import opened_client
from holdfast.client.run import ClientRun


@click.command("retry", cls=HoldfastCommand)
@click.argument("run_id", metavar="RUN")
@store_options()
@click.option("--id", metavar="ID", help="Id of the new run.")
def command(run_id: str, target: str | None, url: str | None, is_json: bool, id: str | None) -> None:
    """Retry an ended run as a new run: same input, and completed steps are taken over, not run again.

    Prints the id of the new run.
    """
    run_async(_retry(run_id, target, url, Output(is_json=is_json), id))


async def _retry(run_id: str, target: str | None, url: str | None, out: Output, new_id: str | None) -> None:
    async with opened_client(target, url) as client:
        await find_run(client, run_id)
        made = await ClientRun[Any](client, run_id, None).retry(id=new_id)
    out.record({"run": made.id, "retried_from": run_id}) if out.is_json else out.line(made.id)
