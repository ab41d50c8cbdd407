"""`holdfast redact`: takes values out of an ended run."""

from __future__ import annotations

import sys
from typing import Any

import click
import msgspec

from holdfast.authoring.handle import RedactionResult
from holdfast.cli.options import actor_option, find_run, store_options
from holdfast.cli.output import Output
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.cli.targets import CommandError, opened_client
from holdfast.client.audit import audited
from holdfast.client.client import Client
from holdfast.client.client_run import ClientRun
from holdfast.core.plurals import counted


@click.command("redact", cls=HoldfastCommand)
@click.argument("run_id", metavar="RUN")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@store_options("One object.")
@actor_option
@click.option("--reason", default="", help="Why; the journal keeps it.")
@click.option("--dry-run", "is_dry", is_flag=True, help="Only say what would change.")
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask before redacting.")
def command(
    run_id: str,
    paths: tuple[str, ...],
    target: str | None,
    url: str | None,
    is_json: bool,
    actor: str | None,
    reason: str,
    is_dry: bool,
    is_sure: bool,
) -> int:
    """Take values out of an ended run for good: what is at these paths, and every copy of it in the run. Then says what
    else has them. The run can no longer be retried or replayed.

    \b
      holdfast redact order-42 input.customer.email --reason "asked to be forgotten"
      holdfast redact order-42 steps.charge.result.card "input.items.*.name" --dry-run
    """

    async def work() -> int:
        async with opened_client(target, url, actor) as client:
            return await _redact(client, run_id, paths, reason, is_dry, is_sure, Output(is_json=is_json))

    return run_async(work())


async def _redact(
    client: Client, run_id: str, paths: tuple[str, ...], reason: str, is_dry: bool, is_sure: bool, out: Output
) -> int:
    run = ClientRun[Any](client, (await find_run(client, run_id)).id, None)
    if not is_dry and not is_sure:
        would = await run.redact(*paths, reason=reason, dry_run=True)
        if not _is_confirmed(would, out):
            raise CommandError("nothing was redacted")
    found = await run.redact(*paths, reason=reason, dry_run=is_dry)
    if not is_dry:
        audited(client.actor, "redact", run_id, counted(len(found.changed), "place"))
    if out.is_json:
        out.record(msgspec.to_builtins(found))
    else:
        _print(found, out)
    return 0


def _is_confirmed(would: RedactionResult, out: Output) -> bool:
    what = f"{counted(len(would.changed), 'place')} of run {would.run}"
    if not out.is_terminal or not sys.stdin.isatty():
        raise click.UsageError(f"redacting cannot be undone. Add --yes to redact {what}, or --dry-run to list them")
    return click.confirm(f"redact {what} ({', '.join(would.changed)})? The values do not come back.", err=True)


def _print(found: RedactionResult, out: Output) -> None:
    said = "would redact" if found.is_dry else "redacted"
    out.line(f"{said} {counted(len(found.changed), 'place')} of run {found.run}")
    for place in found.changed:
        out.line(f"  {place}")
    if found.left_in:
        out.line(("still there:", "bold"))
    for left in found.left_in:
        out.line("  ", (left.run, "bold"), f" ({left.status.value}): {left.place}")
    more = ", and there are more of them" if found.has_more else ""
    out.line((f"searched {counted(found.searched, 'other run')} for it{more}", "dim"))
