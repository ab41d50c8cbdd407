"""Options that commands share: how the store is named, how a run is found in it, what is only reported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from holdfast.cli.parameters import duration
from holdfast.client.client import Client
from holdfast.client.inspect import lookup
from holdfast.errors import InvalidId
from holdfast.ports.runs import RunRow

Function = TypeVar("Function", bound=Callable[..., Any])

dry_run_option = click.option("--dry-run", "is_dry", is_flag=True, help="Only report; change nothing.")
keep_option = click.option(
    "--keep",
    type=duration,
    metavar="DURATION",
    help="Retention for ended runs that set none. [that of the app, 30d]",
)


def store_options(json_help: str = "One object.") -> Callable[[Function], Function]:
    """`[MODULE:APP]`, `--url` and `--json`."""

    def decorate(function: Function) -> Function:
        function = click.option("--json", "is_json", is_flag=True, help=json_help)(function)
        function = click.option("--url", help="Store address. [that of MODULE:APP, or the configured one]")(function)
        return click.argument("target", metavar="[MODULE:APP]", required=False)(function)

    return decorate


async def find_run(client: Client, run_id: str) -> RunRow:
    """The run of that id; one that no run can have is wrong usage."""
    try:
        return await lookup.find_run(client, run_id)
    except InvalidId as error:
        raise click.UsageError(str(error)) from error
