"""`holdfast pause`: stops runs until they are resumed."""

from __future__ import annotations

from typing import Any

import click

from holdfast.cli.acts import Request, act, act_options
from holdfast.cli.options import reason_option
from holdfast.cli.output import Output
from holdfast.cli.root import HoldfastCommand, run_async


@click.command("pause", cls=HoldfastCommand)
@act_options
@reason_option
def command(is_json: bool, **options: Any) -> int:
    """Pause runs until they are resumed: at once if no worker holds them, else when their running steps end.

    \b
      holdfast pause order-42
      holdfast pause --filter queue=slow --dry-run
    """
    return run_async(act(Request("pause", **options), Output(is_json=is_json)))
