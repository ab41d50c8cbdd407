"""What an operator does to a run, and how the answer reads: shared by `cancel`, `kill`, `pause`, `resume`, `drop`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import click

from holdfast.authoring.handle import RunView
from holdfast.cli.options import find_run
from holdfast.cli.output import Output, standing
from holdfast.cli.targets import opened_client
from holdfast.client.inspect.objects import run_object
from holdfast.client.run import ClientRun

reason_option = click.option(
    "--reason", default="", metavar="TEXT", help="Reason, recorded in the journal with your name."
)


async def act(
    run_id: str,
    target: str | None,
    url: str | None,
    out: Output,
    verb: Callable[[ClientRun[Any]], Awaitable[None]],
    remark: Callable[[RunView, RunView], str],
) -> None:
    """Does one thing to one run, and prints how it stands then."""
    async with opened_client(target, url) as client:
        await find_run(client, run_id)
        run = ClientRun[Any](client, run_id, None)
        before = await run.view()
        await verb(run)
        after = await run.view()
    if out.is_json:
        out.record(run_object(after))
        return
    text = remark(before, after)
    state = standing(after.status.value, after.waiting)
    out.line(("run ", "dim"), (run_id, "bold"), " ", *state, f" ({text})" if text else "")
