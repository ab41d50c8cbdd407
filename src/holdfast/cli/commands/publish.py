"""`holdfast publish`: a message to every run that waits on a topic."""

from __future__ import annotations

import click

from holdfast.authoring.script.channels import Topic
from holdfast.cli.message import channel_of, message_id_option
from holdfast.cli.options import actor_option, store_options
from holdfast.cli.output import Output
from holdfast.cli.parameters import read_json
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.cli.targets import opened_client
from holdfast.client.audit import audited


@click.command("publish", cls=HoldfastCommand)
@click.argument("topic")
@click.argument("value", metavar="JSON|@FILE|-")
@store_options()
@message_id_option
@actor_option
def command(
    topic: str, value: str, target: str | None, url: str | None, is_json: bool, id: str | None, actor: str | None
) -> None:
    """Publish a value to every run that waits on TOPIC now, and print their ids. `holdfast runs --topic TOPIC` lists
    them first."""
    channel, given, out = channel_of(Topic, topic), read_json(value), Output(is_json=is_json)

    async def work() -> list[str]:
        async with opened_client(target, url, actor) as client:
            woken = await client.publish(channel, given, id=id)
            audited(client.actor, "publish", detail=channel.name)
            return woken

    woken = run_async(work())

    if out.is_json:
        out.record({"topic": channel.name, "woken": woken})
    elif woken:
        for run in woken:
            out.line(run)
    elif out.is_terminal:
        out.line((f"no run waits on topic {channel.name} now", "dim"))
