"""`holdfast signal` and `publish`: a message to one run, or to every run that waits on a topic."""

from __future__ import annotations

from typing import Any, cast

import click
import msgspec

from holdfast.authoring.script.channels import Signal, Topic
from holdfast.cli.asking import asking, find_run
from holdfast.cli.loading import opened_client
from holdfast.cli.output import Output
from holdfast.cli.parameters import read_text
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.client.run import ClientRun
from holdfast.core.hints import did_you_mean
from holdfast.errors import InvalidInput

_ID = click.option("--id", metavar="ID", help="Id of the message; the same id counts once.")


@click.command("signal", cls=HoldfastCommand)
@click.argument("run_id", metavar="RUN")
@click.argument("name")
@click.argument("value", metavar="JSON|@FILE|-")
@asking()
@_ID
def signal(
    run_id: str, name: str, value: str, target: str | None, url: str | None, is_json: bool, id: str | None
) -> None:
    """Send signal NAME with a value to a run. It is kept until the run asks for it, and delivered exactly once.

    \b
      holdfast signal order-42 approved true
      holdfast signal order-42 comment '"well done"'
    """
    run_async(_signal(run_id, target, url, _channel(Signal, name), _decoded(value), id, Output(is_json=is_json)))


@click.command("publish", cls=HoldfastCommand)
@click.argument("topic")
@click.argument("value", metavar="JSON|@FILE|-")
@asking()
@_ID
def publish(topic: str, value: str, target: str | None, url: str | None, is_json: bool, id: str | None) -> None:
    """Publish a value to every run that waits on TOPIC now, and print their ids."""
    run_async(_publish(target, url, _channel(Topic, topic), _decoded(value), id, Output(is_json=is_json)))


async def _signal(
    run_id: str, target: str | None, url: str | None, channel: Signal[Any], value: Any, id: str | None, out: Output
) -> None:
    async with opened_client(target, url) as client:
        await find_run(client, run_id)
        run = ClientRun[Any](client, run_id, None)
        awaited = [one.name for one in (await run.view()).doing.now if one.kind == "signal"]
        await run.signal(channel, value, id=id)
    is_awaited = channel.name in awaited
    if out.is_json:
        out.record({"run": run_id, "signal": channel.name, "awaited": is_awaited})
        return
    hint = "" if is_awaited else f"; it is kept until the run waits for it.{did_you_mean(channel.name, awaited)}"
    out.line(("run ", "dim"), (run_id, "bold"), f": signal {channel.name} sent{hint}")


async def _publish(
    target: str | None, url: str | None, channel: Topic[Any], value: Any, id: str | None, out: Output
) -> None:
    async with opened_client(target, url) as client:
        woken = await client.publish(channel, value, id=id)
    if out.is_json:
        out.record({"topic": channel.name, "woken": woken})
    elif woken:
        for run in woken:
            out.line(run)
    elif out.is_terminal:
        out.line((f"no run waits on topic {channel.name} now", "dim"))


def _channel(kind: Any, name: str) -> Any:
    """Any value passes: the type is checked where the run takes it."""
    try:
        return kind[Any](name)
    except InvalidInput as error:
        raise click.UsageError(str(error)) from error


def _decoded(given: str) -> Any:
    data = read_text(given, "the value")
    try:
        return cast(object, msgspec.json.decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise click.UsageError(f"the value is not JSON: {error}. Quote strings as JSON: '\"hello\"'.") from None
