"""`holdfast manifest`: what an app can run."""

from __future__ import annotations

import click

from holdfast.app import App
from holdfast.cli.output import Output, Part
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.cli.targets import CommandError, app_to_serve, refuse_missing, refuse_private
from holdfast.config import load
from holdfast.core.manifest import Manifest, ManifestEntry


@click.command("manifest", cls=HoldfastCommand)
@click.argument("target", metavar="[MODULE:APP]", required=False)
@click.option(
    "--observe",
    type=click.IntRange(0, 1000),
    default=20,
    show_default=True,
    metavar="RUNS",
    help="Number of recent runs of each script to read steps from; 0 does not open the store.",
)
@click.option("--json", "is_json", is_flag=True, help="Print the whole manifest as one object.")
def command(target: str | None, observe: int, is_json: bool) -> None:
    """Show what an app can run: every workflow, how it is written, and what it is made of.

    A machine declares its states and a flow its steps. A script declares nothing: the steps that its runs asked for
    so far are shown. Schemas of input and output, retries and timeouts are in --json.

    In a pipe one line each, tab-separated: name, version, kind, id, definition, parts.
    """
    run_async(_show(app_to_serve(target, load()), observe, Output(is_json=is_json)))


async def _show(app: App, observe: int, out: Output) -> None:
    if not observe or not await _has_store(app):
        _print(await app.manifest(observe=0), out)
        return
    async with app:
        _print(await app.manifest(observe=observe), out)


async def _has_store(app: App) -> bool:
    """Whether a store exists: this command never creates one."""
    try:
        refuse_private(app.url)
        await refuse_missing(app.url)
    except CommandError:
        return False
    return True


def _print(manifest: Manifest, out: Output) -> None:
    if out.is_json:
        out.record(manifest.to_json())
        return
    rows: list[tuple[Part, ...]] = [
        (entry.name, entry.version, entry.kind, entry.id, entry.definition, _parts(entry))
        for entry in manifest.workflows
    ]
    if rows or not out.is_terminal:
        out.table(("WORKFLOW", "VERSION", "KIND", "ID", "DEFINITION", "PARTS"), rows)
    else:
        out.line(("this app serves no workflow: name them in App(workflows=[…])", "dim"))


def _parts(entry: ManifestEntry) -> str:
    if entry.kind == "script":
        seen = ", ".join(dict.fromkeys(x.name for x in entry.checkpoints))
        return f"seen: {seen}" if seen else ""
    return ", ".join(part.name for part in (*entry.states, *entry.steps))
