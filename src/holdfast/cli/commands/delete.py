"""`holdfast delete`: deletes ended runs with their trees."""

from __future__ import annotations

import sys
from typing import Any

import click

from holdfast.cli.options import actor_option, find_run, store_options
from holdfast.cli.output import Output
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.cli.targets import CommandError, opened_client
from holdfast.client.audit import audited
from holdfast.client.client import Client
from holdfast.client.client_run import ClientRun
from holdfast.client.deletion import check_deletable
from holdfast.core.plurals import counted
from holdfast.errors import HoldfastError


@click.command("delete", cls=HoldfastCommand)
@click.argument("ids", metavar="RUN...", nargs=-1, required=True)
@store_options("One object per run, then the count.")
@actor_option
@click.option("--yes", "is_sure", is_flag=True, help="Delete without asking.")
def command(
    ids: tuple[str, ...], target: str | None, url: str | None, is_json: bool, actor: str | None, is_sure: bool
) -> int:
    """Delete ended runs, each with its whole tree: rows, journals, messages, values. This cannot be undone. If a run is
    open or a child, nothing is deleted. Blobs that nothing else refers to are removed after their grace (`holdfast
    gc`). The ids are free again.

    \b
      holdfast delete order-42
      holdfast delete order-42 order-43 --yes
    """

    async def work() -> int:
        async with opened_client(target, url, actor) as client:
            return await _delete(client, tuple(dict.fromkeys(ids)), is_sure, Output(is_json=is_json))

    return run_async(work())


async def _delete(client: Client, ids: tuple[str, ...], is_sure: bool, out: Output) -> int:
    for run_id in ids:
        await find_run(client, run_id)
        await check_deletable(client, run_id)
    if not is_sure and not _is_confirmed(ids, out):
        raise CommandError("nothing was deleted")
    runs = problems = 0
    for run_id in ids:
        try:
            gone = await ClientRun[Any](client, run_id, None).delete()
        except HoldfastError as error:  # it has changed since it was looked at
            problems += 1
            if out.is_json:
                out.record({"run": run_id, "error": str(error)})
            else:
                out.line(("run ", "dim"), (run_id, "bold"), (f": {error}", "red"))
            continue
        audited(client.actor, "delete", run_id, counted(gone, "run"))
        runs += gone
        if out.is_json:
            out.record({"run": run_id, "runs": gone})
    if out.is_json:
        out.record({"verb": "delete", "runs": runs, "problems": problems})
    else:
        trees = counted(len(ids) - problems, "tree")
        out.line(f"deleted {counted(runs, 'run')} ({trees})")
    return 1 if problems else 0


def _is_confirmed(ids: tuple[str, ...], out: Output) -> bool:
    what = f"run {ids[0]}" if len(ids) == 1 else counted(len(ids), "run")
    if not out.is_terminal or not sys.stdin.isatty():
        raise click.UsageError(f"deleting cannot be undone. Add --yes to delete {what} with its whole tree")
    return click.confirm(f"delete {what} with all children? This cannot be undone.", err=True)
