"""`holdfast pause`: stops a run until it is resumed."""

from __future__ import annotations

import click

from holdfast.cli.acts import act, reason_option
from holdfast.cli.options import store_options
from holdfast.cli.output import Output
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.client.inspect import remarks


@click.command("pause", cls=HoldfastCommand)
@click.argument("run_id", metavar="RUN")
@store_options()
@reason_option
def command(run_id: str, target: str | None, url: str | None, is_json: bool, reason: str) -> None:
    """Pause a run until it is resumed: at once if no worker holds it, else when its running steps end."""
    run_async(act(run_id, target, url, Output(is_json=is_json), lambda run: run.pause(reason), remarks.paused))
