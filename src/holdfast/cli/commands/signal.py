"""`holdfast signal`: a message to one run."""

from __future__ import annotations

from typing import Any

import click

from holdfast.authoring.script.channels import Signal
from holdfast.cli.message import channel_of, message_id_option
from holdfast.cli.options import actor_option, find_run, store_options
from holdfast.cli.output import Output
from holdfast.cli.parameters import read_json
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.cli.targets import opened_client
from holdfast.client.audit import audited
from holdfast.client.client import Client
from holdfast.core.hints import did_you_mean


@click.command("signal", cls=HoldfastCommand)
@click.argument("run_id", metavar="RUN")
@click.argument("name")
@click.argument("value", metavar="JSON|@FILE|-")
@store_options()
@message_id_option
@actor_option
def command(
    run_id: str,
    name: str,
    value: str,
    target: str | None,
    url: str | None,
    is_json: bool,
    id: str | None,
    actor: str | None,
) -> None:
    """Send signal NAME with a value to a run. It is kept until the run asks for it, and delivered exactly once.

    \b
      holdfast signal order-42 approved true
      holdfast signal order-42 comment '"well done"'
    """
    channel, given, out = channel_of(Signal, name), read_json(value), Output(is_json=is_json)

    async def work() -> None:
        async with opened_client(target, url, actor, has_definitions=True) as client:
            await _signal(client, run_id, channel, given, id, out)

    run_async(work())


async def _signal(client: Client, run_id: str, channel: Signal[Any], value: Any, id: str | None, out: Output) -> None:
    row = await find_run(client, run_id)
    run, spec = client.handle(row), client.spec_of(row)
    awaited = [one.name for one in (await run.view()).doing.now if one.kind == "signal"]
    await run.signal(channel, value, id=id)
    audited(client.actor, "signal", run_id, channel.name)
    is_awaited = channel.name in awaited
    if out.is_json:
        out.record({"run": run_id, "signal": channel.name, "awaited": is_awaited})
        return
    named = [] if spec is None else [name for name in spec.accepts() if name not in awaited]
    is_known = is_awaited or channel.name in named
    guess = "" if is_known else did_you_mean(channel.name, [*awaited, *named])
    hint = "" if is_awaited else f"; it is kept until the run waits for it.{guess}"
    out.line(("run ", "dim"), (run_id, "bold"), f": signal {channel.name} sent{hint}")
