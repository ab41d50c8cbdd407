"""`holdfast cancel`: ends runs after their clean-up."""

from __future__ import annotations

from typing import Any

import click

from holdfast.cli.acts import Request, act, act_options
from holdfast.cli.options import reason_option
from holdfast.cli.output import Output
from holdfast.cli.root import HoldfastCommand, run_async


@click.command("cancel", cls=HoldfastCommand)
@act_options
@reason_option
def command(is_json: bool, **options: Any) -> int:
    """Cancel runs: their code gets CancelledError and may clean up. A run that has not started ends at once.

    \b
      holdfast cancel order-42 order-43 --reason 'customer left'
      holdfast cancel --filter workflow=ship --filter since=2h --dry-run
    """
    return run_async(act(Request("cancel", **options), Output(is_json=is_json)))
