"""`holdfast resume`: lets a paused run continue."""

from __future__ import annotations

import click

from holdfast.cli.acts import act
from holdfast.cli.options import store_options
from holdfast.cli.output import Output
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.client.inspect import remarks


@click.command("resume", cls=HoldfastCommand)
@click.argument("run_id", metavar="RUN")
@store_options()
def command(run_id: str, target: str | None, url: str | None, is_json: bool) -> None:
    """Resume a paused run, whatever paused it: an operator, quarantine, or code that diverged from its journal.

    Fix the cause first: a run that kills its worker, or whose code still differs, is paused again.
    """
    run_async(act(run_id, target, url, Output(is_json=is_json), lambda run: run.resume(), remarks.resumed))
