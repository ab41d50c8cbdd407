"""`holdfast space`: what uses the space of a store."""

from __future__ import annotations

from datetime import timedelta

import click

from holdfast.cli.options import keep_option, store_options
from holdfast.cli.output import Output, size_text, status_part
from holdfast.cli.progress import ProgressLine
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.cli.targets import opened_client
from holdfast.client.inspect.room import Room, read_room, room_object
from holdfast.config import load
from holdfast.core.durations import format_duration
from holdfast.core.plurals import counted


@click.command("space", cls=HoldfastCommand)
@store_options()
@keep_option
@click.option("--largest", type=click.IntRange(min=0), default=10, show_default=True, help="Number of runs to list.")
def command(target: str | None, url: str | None, is_json: bool, keep: timedelta | None, largest: int) -> None:
    """Show what uses the space: rows and bytes by table and kind, the largest runs, and what `gc` would remove.

    In a pipe each line is tab-separated: what it is about, its name, rows, bytes.
    """
    run_async(_space(target, url, keep, largest, Output(is_json=is_json)))


async def _space(target: str | None, url: str | None, keep: timedelta | None, largest: int, out: Output) -> None:
    async with opened_client(target, url) as client:
        kept = keep if keep is not None else client.keep
        with ProgressLine(out) as progress:
            progress.show("reading the store")
            room = await read_room(client, kept, load().settings.upkeep.blob_grace, largest=largest)
    if out.is_json:
        out.record(room_object(room))
        return
    if out.is_terminal:
        _print(room, kept, client.store.url, out)
    else:
        _print_lines(room, client.store.url, out)


def _print(room: Room, kept: timedelta | None, url: str, out: Output) -> None:
    report, swept = room.space, room.swept
    out.fields([("store", url), ("size", size_text(report.total)), ("free", size_text(report.free))])
    out.table(
        ("WHAT", "ROWS", "CONTENT"),
        [
            *((part.name, str(part.rows), size_text(part.bytes)) for part in report.tables),
            *((f"blobs: {part.name}", str(part.rows), size_text(part.bytes)) for part in report.blobs),
        ],
    )
    if report.largest:
        out.table(
            ("LARGEST", "WORKFLOW", "STATUS", "ROWS", "CONTENT"),
            [
                (run.id, run.workflow, status_part(run.status), str(run.rows), size_text(run.bytes))
                for run in report.largest
            ],
        )
    removed, collected = swept.removed, swept.collected
    after = "never" if kept is None else f"after {format_duration(kept)}"
    out.line(
        f"ended runs are removed {after}: now {counted(removed.runs, 'run')}, {counted(removed.rows, 'journal row')}"
    )
    out.line(f"blobs nothing refers to: {collected.blobs}, {size_text(collected.bytes)}")


def _print_lines(room: Room, url: str, out: Output) -> None:
    """In a pipe every line begins with what it is about; sizes are bytes, so that they can be sorted and added."""
    report, swept = room.space, room.swept
    out.table((), [("store", url), ("size", str(report.total)), ("free", str(report.free))])
    out.table((), [("table", part.name, str(part.rows), str(part.bytes)) for part in report.tables])
    out.table((), [("blobs", part.name, str(part.rows), str(part.bytes)) for part in report.blobs])
    out.table((), [("run", x.id, str(x.rows), str(x.bytes), x.workflow, x.status) for x in report.largest])
    out.table(
        (),
        [
            ("removable runs", str(swept.removed.runs), str(swept.removed.rows)),
            ("removable blobs", str(swept.collected.blobs), str(swept.collected.bytes)),
        ],
    )
