"""`holdfast runs`: lists runs, newest first."""

from __future__ import annotations

import shlex
import sys
from typing import Any

import click
from msgspec.structs import replace

from holdfast.authoring.handle import RunView
from holdfast.authoring.script.channels import Topic
from holdfast.cli.message import channel_of
from holdfast.cli.options import store_options
from holdfast.cli.output import Output, status_part
from holdfast.cli.parameters import by_name, pair, statuses
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.cli.run_list import print_runs
from holdfast.cli.targets import opened_client
from holdfast.client.client import COUNTED, Client
from holdfast.client.selection import filter_of_texts
from holdfast.core.status import Status
from holdfast.errors import InvalidInput
from holdfast.ports.runs import Filter

PAGE = 500
MOST_LOOKED = 20_000
"""Failed runs whose errors one command looks at; the cursor continues after them."""


@click.command("runs", cls=HoldfastCommand)
@click.option("--workflow", metavar="NAME")
@click.option("--version", metavar="VERSION", help="Version of the workflow.")
@click.option(
    "--status", type=statuses, multiple=True, metavar="STATUS,...", help=f"One or several: {', '.join(Status)}."
)
@click.option("--since", metavar="DURATION|INSTANT", help="Created in the last 2h, or since 2026-07-01T12:00Z.")
@click.option("--until", metavar="DURATION|INSTANT", help="Created before then.")
@click.option("--queue", metavar="NAME")
@click.option("--parent", metavar="RUN", help="Children of this run.")
@click.option("--root", metavar="RUN", help="Descendants of this run.")
@click.option("--key", metavar="KEY", help="Runs started with this idempotency key.")
@click.option("--worker", metavar="ID", help="Last held by this worker.")
@click.option("--prefix", metavar="TEXT", help="Ids that begin with this.")
@click.option("--error", default="", metavar="TEXT", help="Failed runs whose error contains this, in any case.")
@click.option("--topic", metavar="TOPIC", help="Runs that wait on this topic now.")
@click.option(
    "--attribute", "attributes", type=pair, multiple=True, metavar="NAME=VALUE", help="Repeatable; all must match."
)
@click.option(
    "--sort",
    type=click.Choice(["-created", "created"]),
    default="-created",
    show_default=True,
    help="-created: newest first. created: oldest first.",
)
@click.option("--count", "is_count", is_flag=True, help="Print how many there are of each status, not the runs.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, metavar="N", help="Maximum number of runs."
)
@click.option("--after", default="", metavar="CURSOR", help="Continue after this cursor.")
@store_options("Print one object per line, then the cursor.")
def command(
    target: str | None,
    url: str | None,
    status: tuple[tuple[Status, ...], ...],
    attributes: tuple[tuple[str, str], ...],
    topic: str | None,
    error: str,
    sort: str,
    is_count: bool,
    limit: int,
    after: str,
    is_json: bool,
    **texts: str | None,
) -> None:
    """List runs, newest first.

    On a terminal a table; in a pipe one line for each run, tab-separated: id, status, workflow, created (UTC), queue,
    what it is doing, or why it failed. The cursor of the next page comes last: below the table, as {"next": …} with
    --json, and on standard error when plain lines go into a pipe.

    \b
      holdfast runs --status failed,paused --since 2h
      holdfast runs --workflow ship --count
      holdfast runs --error "connection refused"
    """
    asked: dict[str, Any] = {name: text for name, text in texts.items() if text is not None}
    chosen = tuple(dict.fromkeys(one for several in status for one in several))

    async def work() -> None:
        async with opened_client(target, url) as client:
            try:
                which = filter_of_texts(asked, by_name(attributes, "attribute"), client.store.clock.now())
            except InvalidInput as problem:
                raise click.UsageError(str(problem)) from problem
            which = replace(which, statuses=chosen, is_oldest_first=sort == "created")
            if topic is not None:
                waiting = await client.watching(channel_of(Topic, topic))
                which = replace(which, ids=tuple(waiting) or ("",))
            if is_count and error:
                raise click.UsageError("--count cannot filter by error: leave out --error")
            if is_count:
                await _count(client, which, Output(is_json=is_json))
            else:
                await _list(client, which, error, after, limit, Output(is_json=is_json))

    run_async(work())


async def _count(client: Client, which: Filter, out: Output) -> None:
    counts = {status: count for status, count in (await client.count(which)).items() if count}
    if out.is_json:
        capped = [status.value for status, count in counts.items() if count >= COUNTED]
        out.record({"counts": {status.value: count for status, count in counts.items()}, "capped": capped})
        return
    shown = [
        (status_part(status.value), f"{count}+" if count >= COUNTED else str(count)) for status, count in counts.items()
    ]
    out.table(("STATUS", "RUNS"), shown)


async def _list(client: Client, which: Filter, error: str, after: str, limit: int, out: Output) -> None:
    views: list[RunView] = []
    looked_at = 0
    while True:
        left = min(PAGE, limit - len(views))
        page, after, looked = await client.look(which, after=after, limit=left, error=error)
        views += page
        looked_at += looked
        if not after or len(views) >= limit or (error and looked_at >= MOST_LOOKED):
            break
    print_runs(views, out)
    if out.is_json:
        out.record({"next": after})
    elif after:
        more = out if out.is_terminal else Output(stream=sys.stderr)
        said = f"looked at {looked_at:,} failed runs; " if error else ""
        more.line((f"{said}more: --after {shlex.quote(after)}", "dim"))
    elif not views and out.is_terminal:
        out.line(("no runs match" if which != Filter() else "no runs yet", "dim"))
