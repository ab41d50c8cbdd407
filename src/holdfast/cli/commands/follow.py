"""`holdfast follow`: shows what a run does, live, until it ends."""

from __future__ import annotations

import sys
from typing import Any

import click

from holdfast.cli.entries import entry_parts, since_text
from holdfast.cli.options import find_run, store_options
from holdfast.cli.output import Output
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.cli.targets import opened_client
from holdfast.client.client_run import ClientRun
from holdfast.client.inspect.objects import at_text, event_object
from holdfast.core.timeline import Timeline


@click.command("follow", cls=HoldfastCommand)
@click.argument("run_id", metavar="RUN")
@store_options("One object per event.")
@click.option("--after", type=click.IntRange(min=0), default=0, metavar="SEQ", help="Start after this seq.")
def command(run_id: str, target: str | None, url: str | None, is_json: bool, after: int) -> None:
    """Show what a run did and does, as it happens, until it ends. Ctrl-C stops following, not the run.

    Each line has the time since the run was created, and what happened; with --json each event has its seq, for
    --after.
    """
    run_async(_follow(run_id, target, url, after, Output(is_json=is_json)))


async def _follow(run_id: str, target: str | None, url: str | None, after: int, out: Output) -> None:
    async with opened_client(target, url) as client:
        row = await find_run(client, run_id)
        line = Timeline()
        async for turn in ClientRun[Any](client, run_id, None).follow_turns():
            entries = line.take(turn)
            if turn.seq <= after:
                continue
            if out.is_json:
                for event in turn.events:
                    out.record(event_object(event, turn, row.id, row.root))
            else:
                for entry in entries:
                    at = entry.at if entry.ended_at is None else entry.ended_at
                    head = since_text(at, row.created_at) if out.is_terminal else at_text(at)
                    out.hanging((f"{head:>12}  ", "dim"), entry_parts(entry, is_news=True))
            sys.stdout.flush()
