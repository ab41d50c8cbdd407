"""`holdfast kill`: ends runs at once."""

from __future__ import annotations

from typing import Any

import click

from holdfast.cli.acts import Request, act, act_options
from holdfast.cli.options import reason_option
from holdfast.cli.output import Output
from holdfast.cli.root import HoldfastCommand, run_async


@click.command("kill", cls=HoldfastCommand)
@act_options
@reason_option
def command(is_json: bool, **options: Any) -> int:
    """End runs at once, even on another worker: none of their code runs, nothing is undone. `show` lists what was
    left.

    \b
      holdfast kill order-42 --reason stuck
      holdfast kill --filter worker=w1 --dry-run
    """
    return run_async(act(Request("kill", **options), Output(is_json=is_json)))
