"""`holdfast gc`: removes what a store need not keep."""

from __future__ import annotations

from datetime import timedelta

import click

from holdfast.cli.options import actor_option, dry_run_option, keep_option, store_options
from holdfast.cli.output import Output, size_text
from holdfast.cli.parameters import duration
from holdfast.cli.progress import ProgressLine
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.cli.targets import opened_client
from holdfast.client.audit import audited
from holdfast.client.cleanup import clean
from holdfast.client.client import Client
from holdfast.client.inspect.room import Swept, sweepable, swept_object
from holdfast.config import load
from holdfast.core.plurals import counted


@click.command("gc", cls=HoldfastCommand)
@store_options()
@keep_option
@click.option("--grace", type=duration, metavar="DURATION", help="Retention for unused blobs. [as configured, 1d]")
@dry_run_option
@actor_option
def command(
    target: str | None,
    url: str | None,
    is_json: bool,
    keep: timedelta | None,
    grace: timedelta | None,
    is_dry: bool,
    actor: str | None,
) -> None:
    """Remove runs that ended long ago, with their children, and blobs that nothing refers to.

    Workers do this automatically, every few minutes. A run is removed with its whole tree, once the whole tree has
    ended.
    """

    async def work() -> None:
        async with opened_client(target, url, actor) as client:
            await _gc(client, keep, grace, is_dry, Output(is_json=is_json))

    run_async(work())


async def _gc(client: Client, keep: timedelta | None, grace: timedelta | None, is_dry: bool, out: Output) -> None:
    kept = keep if keep is not None else client.keep
    grace = grace if grace is not None else load().settings.upkeep.blob_grace
    if is_dry:
        _say_swept(await sweepable(client.store, kept, grace), out, is_dry=True)
        return

    def tell(swept: Swept) -> None:
        runs, blobs = counted(swept.removed.runs, "run"), counted(swept.collected.blobs, "blob")
        progress.show(f"{runs}, {blobs} removed")

    with ProgressLine(out) as progress:
        swept = await clean(client, kept, grace, tell=tell)
    audited(client.actor, "gc", detail=f"{counted(swept.removed.runs, 'run')} removed")
    _say_swept(swept, out, is_dry=False)


def _say_swept(swept: Swept, out: Output, *, is_dry: bool) -> None:
    removed, collected, later = swept.removed, swept.collected, swept.later
    if out.is_json:
        out.record(swept_object(swept, is_dry=is_dry))
        return
    would = "would remove" if is_dry else "removed"
    trees, rows = counted(removed.trees, "tree"), counted(removed.rows, "journal row")
    out.line(f"{would} {counted(removed.runs, 'run')} ({trees}, {rows})")
    follow = f"; {later.blobs} more ({size_text(later.bytes)}) follow after their grace" if later.blobs else ""
    out.line(f"{would} {counted(collected.blobs, 'blob')} ({size_text(collected.bytes)}){follow}")
