"""`holdfast runs`: which runs there are, newest first."""

from __future__ import annotations

import shlex
import sys

import click

from holdfast.authoring.handle import RunView
from holdfast.cli.options import store_options
from holdfast.cli.output import Output, Part, ago_text, status_part
from holdfast.cli.parameters import by_name, pair, status
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.cli.targets import opened_client
from holdfast.client.inspect.objects import at_text, run_object
from holdfast.core.status import Status
from holdfast.ports.runs import Filter

PAGE = 500


@click.command("runs", cls=HoldfastCommand)
@click.option("--workflow", metavar="NAME")
@click.option("--version", metavar="VERSION", help="Version of the workflow.")
@click.option("--status", "statuses", type=status, multiple=True, help="Repeatable.")
@click.option("--queue", metavar="NAME")
@click.option("--parent", metavar="RUN", help="Children of this run.")
@click.option("--root", metavar="RUN", help="Descendants of this run.")
@click.option("--key", metavar="KEY", help="Runs started with this idempotency key.")
@click.option("--worker", metavar="ID", help="Last held by this worker.")
@click.option(
    "--attribute", "attributes", type=pair, multiple=True, metavar="NAME=VALUE", help="Repeatable; all must match."
)
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, metavar="N", help="Maximum number of runs."
)
@click.option("--after", default="", metavar="CURSOR", help="Continue after this cursor.")
@store_options("Print one object per line, then the cursor.")
def command(
    target: str | None,
    url: str | None,
    statuses: tuple[Status, ...],
    version: str | None,
    attributes: tuple[tuple[str, str], ...],
    limit: int,
    after: str,
    is_json: bool,
    **texts: str | None,
) -> None:
    """List runs, newest first.

    On a terminal a table; in a pipe one line for each run, tab-separated: id, status, workflow, created (UTC), queue,
    what it is doing. The cursor of the next page comes last: below the table, as {"next": …} with --json, and on
    standard error when plain lines go into a pipe.
    """
    which = Filter(
        statuses=statuses,
        version=version,
        attributes=by_name(attributes, "attribute"),
        is_suspect=False,
        since=None,
        until=None,
        ids=(),
        **{name: text or "" for name, text in texts.items()},
    )
    run_async(_list(target, url, which, after, limit, Output(is_json=is_json)))


async def _list(target: str | None, url: str | None, which: Filter, after: str, limit: int, out: Output) -> None:
    async with opened_client(target, url) as client:
        views: list[RunView] = []
        while True:
            page, after = await client.page(which, after=after, limit=min(PAGE, limit - len(views)))
            views += page
            if not after or len(views) >= limit:
                break
    print_runs(views, out)
    if out.is_json:
        out.record({"next": after})
    elif after:
        more = out if out.is_terminal else Output(stream=sys.stderr)
        more.line((f"more: --after {shlex.quote(after)}", "dim"))
    elif not views and out.is_terminal:
        out.line(("no runs match" if which != Filter() else "no runs yet", "dim"))


def print_runs(views: list[RunView], out: Output) -> None:
    """Runs as rows, or as objects."""
    if out.is_json:
        for view in views:
            out.record(run_object(view))
    elif out.is_terminal:
        rows = [_row(view) for view in views]
        if rows:
            out.table(("RUN", "STATUS", "WORKFLOW", "AGE", "DOING"), rows)
    else:
        out.table(
            (),
            [(x.id, status_word(x), label_of(x), at_text(x.created_at), x.queue, x.waiting) for x in views],
        )


def status_word(view: RunView) -> str:
    """The status, or that the run's row cannot be read in full."""
    return "damaged" if view.damage else view.status.value


def label_of(view: RunView) -> str:
    """The workflow and its version."""
    return f"{view.workflow} {view.version}" if view.version else view.workflow


def _row(view: RunView) -> tuple[Part, ...]:
    age = ago_text(view.seen_at - view.created_at)
    return view.id, status_part(status_word(view)), label_of(view), age, view.waiting
