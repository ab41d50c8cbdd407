"""`holdfast gc`, `compact` and `space`: keep a store small, and show what uses its space."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Self

import click

from holdfast.cli.asking import asking
from holdfast.cli.loading import opened_client
from holdfast.cli.output import Output, is_terminal, status_part
from holdfast.cli.parameters import duration
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.client.cleanup import clean, long_journals
from holdfast.client.cleanup import compact as compact_journal
from holdfast.client.inspect.room import Swept, read_room, room_object, sweepable, swept_object
from holdfast.config import load
from holdfast.core.durations import format_duration
from holdfast.errors import BlobNotFound, CorruptJournal

ROWS = 1_000
"""Journals with fewer rows are not worth compacting unless one is named."""

_DRY = click.option("--dry-run", "is_dry", is_flag=True, help="Only report; change nothing.")
_KEEP = click.option(
    "--keep",
    type=duration,
    metavar="DURATION",
    help="Retention for ended runs that set none. [that of the app, 30d]",
)


@click.command("gc", cls=HoldfastCommand)
@asking()
@_KEEP
@click.option("--grace", type=duration, metavar="DURATION", help="Retention for unused blobs. [as configured, 1d]")
@_DRY
def gc(
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
        with _Progress(out) as progress:
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


@click.command("compact", cls=HoldfastCommand)
@click.argument("run_id", metavar="[RUN]", required=False)
@asking("Print one object per run, then the total.")
@click.option("--rows", type=click.IntRange(min=2), default=ROWS, show_default=True, help="Minimum number of rows.")
@_DRY
def compact(run_id: str | None, target: str | None, url: str | None, is_json: bool, rows: int, is_dry: bool) -> int:
    """Replace the rows of each long journal by one row with everything the run needs to continue.

    RUN compacts that run, whatever its length. Only the record of which worker did what is lost: `show` begins where
    the journal now begins. Workers do this by themselves for runs that grow past 10,000 rows. A damaged journal is
    named and left unchanged; exit code 1.
    """
    if run_id is not None and ":" in run_id and target is None:
        run_id, target = None, run_id
    return run_async(_compact(run_id, target, url, rows, is_dry, Output(is_json=is_json)))


async def _compact(
    run_id: str | None, target: str | None, url: str | None, rows: int, is_dry: bool, out: Output
) -> int:
    runs = gone = problems = 0
    async with opened_client(target, url) as client:
        with _Progress(out) as progress:
            async for row, length in long_journals(client, run_id, rows):
                try:
                    one = length - 2 if is_dry else await compact_journal(client, row)
                except (CorruptJournal, BlobNotFound) as error:  # the others still become short
                    problems += 1
                    _say_damaged(row.id, str(error).removeprefix(f"run {row.id}: "), out)
                    continue
                if one <= 0:
                    continue
                runs, gone = runs + 1, gone + one
                progress.show(f"{runs} runs, {gone} rows")
                if out.is_json:
                    out.record({"run": row.id, "rows": one})
    if out.is_json:
        out.record({"dry_run": is_dry, "runs": runs, "rows": gone, "problems": problems})
    else:
        out.line(f"{'would compact' if is_dry else 'compacted'} {runs} runs, {gone} journal rows less")
        if problems:
            count = "1 run is" if problems == 1 else f"{problems} runs are"
            out.line((f"{count} damaged and unchanged. See: holdfast verify", "red"))
    return 1 if problems else 0


def _say_damaged(run: str, problem: str, out: Output) -> None:
    if out.is_json:
        out.record({"run": run, "problem": problem})
    else:
        out.line(("run ", "dim"), (run, "bold"), (f": {problem}", "red"))


@click.command("space", cls=HoldfastCommand)
@asking()
@_KEEP
@click.option("--largest", type=click.IntRange(min=0), default=10, show_default=True, help="Number of runs to list.")
def space(target: str | None, url: str | None, is_json: bool, keep: timedelta | None, largest: int) -> None:
    """Show what uses the space: rows and bytes by table and kind, the largest runs, and what `gc` would remove."""
    run_async(_space(target, url, keep, largest, Output(is_json=is_json)))


async def _space(target: str | None, url: str | None, keep: timedelta | None, largest: int, out: Output) -> None:
    async with opened_client(target, url) as client:
        kept = keep if keep is not None else client.keep
        with _Progress(out) as progress:
            progress.show("reading the store")
            room = await read_room(client, kept, load().settings.upkeep.blob_grace, largest=largest)
    if out.is_json:
        out.record(room_object(room))
        return
    report, swept = room.space, room.swept
    out.fields([("store", client.store.url), ("size", size_text(report.total)), ("free", size_text(report.free))])
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
    out.line(f"ended runs go {after}: now {removed.runs} runs, {removed.rows} journal rows")
    out.line(f"blobs nothing refers to: {collected.blobs}, {size_text(collected.bytes)}")


def size_text(count: int) -> str:
    """Bytes for people: "812 B", "1.4 MB"."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


class _Progress:
    """One line on a terminal's standard error, rewritten while the answer is to come; nothing in a pipe."""

    def __init__(self, out: Output) -> None:
        self._is_shown = out.is_terminal and is_terminal(sys.stderr)
        self._width = 0

    def __enter__(self) -> Self:
        return self

    def show(self, text: str) -> None:
        """What has been done so far."""
        if self._is_shown:
            sys.stderr.write(f"\r{text:<{self._width}}")
            sys.stderr.flush()
            self._width = len(text)

    def __exit__(self, *_: object) -> None:
        if self._is_shown and self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()
