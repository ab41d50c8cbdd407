"""`holdfast compact`: compacts long journals."""

from __future__ import annotations

import click

from holdfast.cli.options import actor_option, dry_run_option, store_options
from holdfast.cli.output import Output
from holdfast.cli.progress import ProgressLine
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.cli.targets import opened_client
from holdfast.client.audit import audited
from holdfast.client.cleanup import compact, long_journals
from holdfast.client.client import Client
from holdfast.core.plurals import counted
from holdfast.errors import BlobNotFound, CorruptJournal

ROWS = 1_000
"""Minimum number of rows to compact, unless a run is named."""


@click.command("compact", cls=HoldfastCommand)
@click.argument("ids", metavar="[RUN]...", nargs=-1)
@store_options("Print one object per run, then the total.")
@click.option("--rows", type=click.IntRange(min=2), default=ROWS, show_default=True, help="Minimum number of rows.")
@dry_run_option
@actor_option
def command(
    ids: tuple[str, ...], target: str | None, url: str | None, is_json: bool, rows: int, is_dry: bool, actor: str | None
) -> int:
    """Replace the rows of each long journal by one row with everything the run needs to continue.

    RUN compacts these runs, whatever their length. Only the record of which worker did what is lost: `show` starts
    where the journal now starts. Workers do this automatically for runs with more than 10,000 rows. A damaged journal
    is named and left unchanged; exit code 1.
    """

    async def work() -> int:
        async with opened_client(target, url, actor) as client:
            return await _compact(client, ids, rows, is_dry, Output(is_json=is_json))

    return run_async(work())


async def _compact(client: Client, ids: tuple[str, ...], rows: int, is_dry: bool, out: Output) -> int:
    runs = gone = problems = 0
    with ProgressLine(out) as progress:
        for run_id in ids or (None,):
            async for row, length in long_journals(client, run_id, rows):
                try:
                    one = length - 2 if is_dry else await compact(client, row)
                except (CorruptJournal, BlobNotFound) as error:  # the others still become short
                    problems += 1
                    _say_damaged(row.id, str(error).removeprefix(f"run {row.id}: "), out)
                    continue
                if one <= 0:
                    continue
                runs, gone = runs + 1, gone + one
                progress.show(f"{counted(runs, 'run')}, {counted(gone, 'row')}")
                if out.is_json:
                    out.record({"run": row.id, "rows": one})
    if not is_dry:
        audited(client.actor, "compact", detail=counted(runs, "run"))
    if out.is_json:
        out.record({"dry_run": is_dry, "runs": runs, "rows": gone, "problems": problems})
    else:
        would = "would compact" if is_dry else "compacted"
        out.line(f"{would} {counted(runs, 'run')}, {counted(gone, 'journal row')} less")
        if problems:
            count = "1 run is" if problems == 1 else f"{problems} runs are"
            out.line((f"{count} damaged and unchanged. See: holdfast verify", "red"))
    return 1 if problems else 0


def _say_damaged(run: str, problem: str, out: Output) -> None:
    if out.is_json:
        out.record({"run": run, "problem": problem})
    else:
        out.line(("run ", "dim"), (run, "bold"), (f": {problem}", "red"))
