"""`holdfast drop`: a message that a run cannot read is removed."""

from __future__ import annotations

from typing import Any

import click

from holdfast.cli.acts import reason_option
from holdfast.cli.options import find_run, store_options
from holdfast.cli.output import Output
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.cli.targets import opened_client
from holdfast.client.run import ClientRun


@click.command("drop", cls=HoldfastCommand)
@click.argument("run_id", metavar="RUN")
@click.argument("number", metavar="NUMBER", type=click.IntRange(min=1))
@store_options()
@reason_option
def command(run_id: str, number: int, target: str | None, url: str | None, is_json: bool, reason: str) -> None:
    """Drop a message that a run cannot read: one that was changed, damaged, or is missing. `show` and `verify` say
    which. The message is lost, unless it was the end of a child, which is read again from the child's journal.

    The run stays paused: resume it then.
    """
    run_async(_drop(run_id, number, target, url, Output(is_json=is_json), reason))


async def _drop(run_id: str, number: int, target: str | None, url: str | None, out: Output, reason: str) -> None:
    async with opened_client(target, url) as client:
        await find_run(client, run_id)
        is_told_again = await ClientRun[Any](client, run_id, None).drop_message(number, reason)
    if out.is_json:
        out.record({"run": run_id, "message": number, "told_again": is_told_again})
        return
    what = "told again from the child's journal" if is_told_again else "dropped"
    out.line(("run ", "dim"), (run_id, "bold"), f": message {number} {what}; holdfast resume {run_id} resumes it")
