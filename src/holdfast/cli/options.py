"""Options that commands share: the store, the operator, dry runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import click

from holdfast.cli.parameters import duration
from holdfast.client.client import Client
from holdfast.client.inspect import lookup
from holdfast.errors import InvalidId
from holdfast.ports.runs import RunRow

Function = TypeVar("Function", bound=Callable[..., Any])


class Decorator(Protocol):
    """Adds an option to a command."""

    def __call__(self, function: Function, /) -> Function: ...


dry_run_option: Decorator = click.option("--dry-run", "is_dry", is_flag=True, help="Only report; change nothing.")
keep_option: Decorator = click.option(
    "--keep",
    type=duration,
    metavar="DURATION",
    help="Retention for ended runs that set none. [that of the app, 30d]",
)
reason_option: Decorator = click.option(
    "--reason", default="", metavar="TEXT", help="Reason, recorded in the journal with your name."
)
actor_option: Decorator = click.option("--as", "actor", metavar="NAME", help="Who does it, for the record. [USER@HOST]")
app_option: Decorator = click.option("--app", "target", metavar="MODULE:APP", help="The app. [the configured one]")


def store_options(json_help: str = "One object.") -> Callable[[Function], Function]:
    """`--app`, `--url` and `--json`."""

    def decorate(function: Function) -> Function:
        function = click.option("--json", "is_json", is_flag=True, help=json_help)(function)
        function = click.option("--url", metavar="URL", help="Store address. [that of the app]")(function)
        return click.option(
            "--app", "target", metavar="MODULE:APP", help="App whose store to use. [the configured one]"
        )(function)

    return decorate


class ListGroup(click.Group):
    """A group whose name alone is its command `list`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Without the name of a command it lists."""
        if not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)


def operator_options(name: Decorator, *, has_reason: bool = False) -> Callable[[Function], Function]:
    """What a command takes that changes one thing of the store: its name, the store, why, and who does it."""

    def decorate(function: Function) -> Function:
        function = actor_option(function)
        function = reason_option(function) if has_reason else function
        return name(store_options()(function))

    return decorate


async def find_run(client: Client, run_id: str) -> RunRow:
    """The run of that id. An invalid id is wrong usage."""
    try:
        return await lookup.find_run(client, run_id)
    except InvalidId as error:
        raise click.UsageError(str(error)) from error
