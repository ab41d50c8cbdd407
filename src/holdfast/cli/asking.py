"""What the commands that ask a store share: how the store is named, and how a run is found in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from holdfast.cli.loading import CommandError, did_you_mean
from holdfast.client.client import Client
from holdfast.core.ids import check_id
from holdfast.errors import InvalidId
from holdfast.ports.runs import Filter, RunRow

Function = TypeVar("Function", bound=Callable[..., Any])

RECENT = 500
"""How many runs are looked at for a hint."""


def asking(json_help: str = "One object.") -> Callable[[Function], Function]:
    """`[MODULE:APP]`, `--url` and `--json`."""

    def decorate(function: Function) -> Function:
        function = click.option("--json", "is_json", is_flag=True, help=json_help)(function)
        function = click.option("--url", help="The store; else that of MODULE:APP, else the configured one.")(function)
        return click.argument("target", metavar="[MODULE:APP]", required=False)(function)

    return decorate


async def find_run(client: Client, run_id: str) -> RunRow:
    """The run of that id; one that is not there gets a hint."""
    try:
        row = await client.store.get(check_id(run_id, "run id"))
    except InvalidId as error:
        raise click.UsageError(str(error)) from error
    if row is None:
        recent, _ = await client.page(Filter(), limit=RECENT)
        hint = did_you_mean(run_id, [view.id for view in recent])
        raise CommandError(f"no run {run_id!r} in {client.store.url}.{hint or ' `holdfast runs` lists them.'}")
    return row
