"""`holdfast resume`: resumes paused runs."""

from __future__ import annotations

from typing import Any

import click

from holdfast.cli.acts import Request, act, act_options
from holdfast.cli.output import Output
from holdfast.cli.root import HoldfastCommand, run_async


@click.command("resume", cls=HoldfastCommand)
@act_options
def command(is_json: bool, **options: Any) -> int:
    """Resume paused runs, whatever paused them: an operator, quarantine, or code that diverged from its journal.

    Fix the cause first: a run that kills its worker, or whose code still differs, is paused again.

    \b
      holdfast resume order-42
      holdfast resume --filter workflow=ship --dry-run
    """
    return run_async(act(Request("resume", **options), Output(is_json=is_json)))
