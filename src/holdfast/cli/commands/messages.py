"""`holdfast messages`: messages that a run has not taken. List them, drop one, replace a signal's value."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from holdfast.authoring.handle import StoredMessage
from holdfast.cli.options import actor_option, find_run, reason_option, store_options
from holdfast.cli.output import Output
from holdfast.cli.parameters import read_json
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.cli.targets import opened_client
from holdfast.client.audit import audited

_RUN = click.argument("run_id", metavar="RUN")
_MESSAGE = click.argument("message", metavar="MESSAGE")


class MessagesGroup(click.Group):
    """`holdfast messages RUN` is `holdfast messages list RUN`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Lists if no command is named."""
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            args = ["list", *args]
        return super().resolve_command(ctx, args)


@click.group("messages", cls=MessagesGroup)
def command() -> None:
    """Messages that a run has not taken yet: list them, drop one, replace the value of a signal.

    \b
      holdfast messages order-42
      holdfast messages replace order-42 3 true
      holdfast messages drop order-42 3 --reason "sent twice"

    MESSAGE is the number of a message, or its id. A run with a message that it cannot read is paused: resume it
    afterwards.
    """


@command.command("list", cls=HoldfastCommand)
@_RUN
@store_options()
def list_(run_id: str, target: str | None, url: str | None, is_json: bool) -> None:
    """List the messages that a run has not taken yet, oldest first, and what is wrong with them."""
    run_async(_list(run_id, target, url, Output(is_json=is_json)))


@command.command("drop", cls=HoldfastCommand)
@_RUN
@_MESSAGE
@store_options()
@reason_option
@actor_option
def drop(
    run_id: str, message: str, target: str | None, url: str | None, is_json: bool, reason: str, actor: str | None
) -> None:
    """Drop a message that a run cannot read: of the wrong type, changed, damaged, or missing. It is lost, unless it was
    the end of a child, which is read again from the child's journal."""
    run_async(_drop(run_id, message, target, url, Output(is_json=is_json), reason, actor))


@command.command("replace", cls=HoldfastCommand)
@_RUN
@_MESSAGE
@click.argument("value", metavar="JSON|@FILE|-")
@store_options()
@reason_option
@actor_option
def replace(
    run_id: str,
    message: str,
    value: str,
    target: str | None,
    url: str | None,
    is_json: bool,
    reason: str,
    actor: str | None,
) -> None:
    """Replace the value of a signal that a paused run has not taken. It keeps its name, sender and place."""
    run_async(_replace(run_id, message, read_json(value), target, url, Output(is_json=is_json), reason, actor))


async def _list(run_id: str, target: str | None, url: str | None, out: Output) -> None:
    async with opened_client(target, url, has_definitions=True) as client:
        found = await client.handle(await find_run(client, run_id)).messages()
    if out.is_json:
        out.record({"run": run_id, "messages": [msgspec.to_builtins(one) for one in found]})
    elif found:
        out.table(("MESSAGE", "KIND", "NAME", "FROM", "VALUE", "PROBLEM"), [_row(one) for one in found])
    elif out.is_terminal:
        out.line((f"no message waits for run {run_id}", "dim"))


def _row(one: StoredMessage) -> tuple[str, ...]:
    return (str(one.number or one.id), one.kind, one.name, one.sender, one.value, one.problem)


async def _drop(
    run_id: str, word: str, target: str | None, url: str | None, out: Output, reason: str, actor: str | None
) -> None:
    async with opened_client(target, url, actor, has_definitions=True) as client:
        run = client.handle(await find_run(client, run_id))
        message = _named(await run.messages(), word)
        is_told_again = await run.drop_message(message, reason)
        audited(client.actor, "messages drop", run_id, str(message))
    if out.is_json:
        out.record({"run": run_id, "message": message, "told_again": is_told_again})
        return
    what = "told again from the child's journal" if is_told_again else "dropped"
    out.line(("run ", "dim"), (run_id, "bold"), f": message {message} {what}; holdfast resume {run_id} resumes it")


async def _replace(
    run_id: str, word: str, value: Any, target: str | None, url: str | None, out: Output, reason: str, actor: str | None
) -> None:
    async with opened_client(target, url, actor, has_definitions=True) as client:
        run = client.handle(await find_run(client, run_id))
        message = _named(await run.messages(), word)
        await run.replace_message(message, value, reason)
        audited(client.actor, "messages replace", run_id, str(message))
    if out.is_json:
        out.record({"run": run_id, "message": message})
        return
    out.line(("run ", "dim"), (run_id, "bold"), f": message {message} replaced; holdfast resume {run_id} resumes it")


def _named(messages: list[StoredMessage], word: str) -> int | str:
    """The id of a message if one has it, else a number: a missing message has only a number."""
    if any(one.id == word for one in messages) or not word.isdecimal():
        return word
    return int(word)
