"""`holdfast gc`: removes what a store need not keep."""

from __future__ import annotations

from datetime import timedelta

import click

from holdfast.cli.options import dry_run_option, keep_option, store_options
from holdfast.cli.output import Output, size_text
from holdfast.cli.parameters import duration
from holdfast.cli.progress import ProgressLine
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.cli.targets import opened_client
from holdfast.client.cleanup import clean
from holdfast.client.inspect.room import Swept, sweepable, swept_object
from holdfast.config import load


@click.command("gc", cls=HoldfastCommand)
@store_options()
@keep_option
@click.option("--grace", type=duration, metavar="DURATION", help="Retention for unused blobs. [as configured, 1d]")
@dry_run_option
def command(
    target: str | None, url: str | None, is_json: bool, keep: timedelta | None, grace: timedelta | None, is_dry: bool
) -> None:
    """Remove runs that ended long ago, with their children, and blobs that nothing refers to.

    Workers do this by themselves, every few minutes. A run is removed with its whole tree, when all of it has ended.
    """
    run_async(_gc(target, url, keep, grace, is_dry, Output(is_json=is_json)))


async def _gc(
    target: str | None, url: str | None, keep: timedelta | None, grace: timedelta | None, is_dry: bool, out: Output
) -> None:
    async with opened_client(target, url) as client:
        kept = keep if keep is not None else client.keep
        grace = grace if grace is not None else load().settings.upkeep.blob_grace
        if is_dry:
            _say_swept(await sweepable(client.store, kept, grace), out, is_dry=True)
            return
        with ProgressLine(out) as progress:
            swept = await clean(
                client,
                kept,
                grace,
                tell=lambda x: progress.show(f"{x.removed.runs} runs, {x.collected.blobs} blobs removed"),
            )
        _say_swept(swept, out, is_dry=False)


def _say_swept(swept: Swept, out: Output, *, is_dry: bool) -> None:
    removed, collected, later = swept.removed, swept.collected, swept.later
    if out.is_json:
        out.record(swept_object(swept, is_dry=is_dry))
        return
    would = "would remove" if is_dry else "removed"
    out.line(f"{would} {removed.runs} runs ({removed.trees} trees, {removed.rows} journal rows)")
    follow = f"; {later.blobs} more ({size_text(later.bytes)}) follow after their grace" if later.blobs else ""
    out.line(f"{would} {collected.blobs} blobs ({size_text(collected.bytes)}){follow}")
