"""`holdfast export`: the journal of a run as a file."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from holdfast.cli.options import find_run, store_options
from holdfast.cli.output import Output
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.cli.targets import CommandError, opened_client
from holdfast.client.exports import export_journal, holds_secrets


@click.command("export", cls=HoldfastCommand)
@click.argument("run_id", metavar="RUN")
@store_options()
@click.option("-o", "--output", "file", metavar="FILE", help="File to create. [standard output]")
def command(run_id: str, target: str | None, url: str | None, is_json: bool, file: str | None) -> None:
    """Write the journal of a run, and of its whole tree, as a file: a fixture for `holdfast.testing.replay`.

    \b
      holdfast export order-42 -o tests/journals/order.json

    Payloads are included as stored, even secret variables of flows: a warning says so. An existing file is not
    overwritten.
    """
    data = run_async(_export(run_id, target, url))
    if holds_secrets(data, run_id):
        click.echo(f"warning: the journal of {run_id} contains secret variables in plain text: keep it safe", err=True)
    if file is None:
        sys.stdout.buffer.write(data)
        return
    try:
        with Path(file).open("xb") as new:
            new.write(data)
    except FileExistsError:
        raise CommandError(f"{file} already exists: choose a different name, or remove it") from None
    out = Output(is_json=is_json)
    if out.is_json:
        out.record({"run": run_id, "file": file, "bytes": len(data)})
    else:
        out.line(("run ", "dim"), (run_id, "bold"), f" exported to {file}, {len(data):,} bytes")


async def _export(run_id: str, target: str | None, url: str | None) -> bytes:
    async with opened_client(target, url) as client:
        await find_run(client, run_id)
        return await export_journal(client.store, run_id)
