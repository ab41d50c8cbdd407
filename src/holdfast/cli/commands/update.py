"""`holdfast update`: a question to one run, and its answer."""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import Any

import click

from holdfast.authoring.script.update import Update
from holdfast.cli.options import actor_option, find_run, store_options
from holdfast.cli.output import Output
from holdfast.cli.parameters import duration, read_json
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.cli.targets import opened_client
from holdfast.client.audit import audited
from holdfast.client.client import Client
from holdfast.client.inquiry import ask_for_show
from holdfast.errors import InvalidInput


@click.command("update", cls=HoldfastCommand)
@click.argument("run_id", metavar="RUN")
@click.argument("name")
@click.argument("value", metavar="JSON|@FILE|-")
@store_options()
@click.option("--id", metavar="ID", help="Id of the question; a question with the same id is asked and answered once.")
@click.option("--timeout", type=duration, default="30s", show_default=True, help="Maximum time to wait.")
@actor_option
def command(
    run_id: str,
    name: str,
    value: str,
    target: str | None,
    url: str | None,
    is_json: bool,
    id: str | None,
    timeout: timedelta,
    actor: str | None,
) -> None:
    """Ask a run with update NAME and a value, wait, and print its answer as JSON.

    The run may refuse. After a timeout the question stays asked: ask again with the same --id.

    \b
      holdfast update order-42 reassign '{"to": "bob"}'
      holdfast update order-42 reassign '{"to": "bob"}' --id req-7 --timeout 5m
    """
    try:  # any value passes here: the run's definition says what it takes, where this command can load it
        update = Update[Any, Any](name)
    except InvalidInput as error:
        raise click.UsageError(str(error)) from error
    given, out = read_json(value), Output(is_json=is_json)

    async def work() -> None:
        async with opened_client(target, url, actor, has_definitions=True) as client:
            await _ask(client, run_id, update, given, id or secrets.token_hex(12), timeout, out)

    run_async(work())


async def _ask(
    client: Client, run_id: str, update: Update[Any, Any], value: Any, id: str, timeout: timedelta, out: Output
) -> None:
    row = await find_run(client, run_id)
    audited(client.actor, "update", run_id, update.name)
    answer = await ask_for_show(client, row, update.name, value, id, timeout, client.spec_of(row))
    whole = {"run": run_id, "update": update.name, "id": id, "answer": answer}
    out.record(whole if out.is_json else answer)
