"""`holdfast cancel`: ends a run after its clean-up."""

from __future__ import annotations

import click

from holdfast.cli.acts import act, reason_option
from holdfast.cli.options import store_options
from holdfast.cli.output import Output
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.client.inspect import remarks


@click.command("cancel", cls=HoldfastCommand)
@click.argument("run_id", metavar="RUN")
@store_options()
@reason_option
def command(run_id: str, target: str | None, url: str | None, is_json: bool, reason: str) -> None:
    """Cancel a run: its code gets CancelledError and may clean up. A run that has not started ends at once."""
    run_async(act(run_id, target, url, Output(is_json=is_json), lambda run: run.cancel(reason), remarks.cancelled))
