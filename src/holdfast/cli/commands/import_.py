"""`holdfast import`: imports an exported journal, to look at."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.cli.options import actor_option, store_options
from holdfast.cli.output import Output
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.cli.targets import opened_client
from holdfast.client.audit import audited
from holdfast.client.exports import import_journal


@click.command("import", cls=HoldfastCommand)
@click.argument("file", metavar="FILE")
@store_options()
@actor_option
def command(file: str, target: str | None, url: str | None, is_json: bool, actor: str | None) -> None:
    """Import an exported journal into the store, each row unchanged. An existing run is never overwritten. Runs that
    have not ended are only for viewing: no worker runs them.
    """
    data = Path(file).read_bytes()

    async def work() -> list[str]:
        async with opened_client(target, url, actor) as client:
            made = await import_journal(client.store, data, file)
            audited(client.actor, "import", detail=file)
            return made

    made = run_async(work())
    out = Output(is_json=is_json)
    if out.is_json:
        out.record({"runs": made})
    else:
        for name in made:
            out.line(("run ", "dim"), (name, "bold"), " imported")
