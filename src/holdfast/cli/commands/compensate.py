"""`holdfast compensate`: finishes the rollback of a machine's run that could not undo everything."""

from __future__ import annotations

import click

from holdfast.app import App
from holdfast.cli.output import Output
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.cli.targets import app_to_serve, refuse_private
from holdfast.config import load


@click.command("compensate", cls=HoldfastCommand)
@click.argument("run_id", metavar="RUN")
@click.argument("target", metavar="[MODULE:APP]", required=False)
@click.option("--json", "is_json", is_flag=True, help="Print one object.")
def command(run_id: str, target: str | None, is_json: bool) -> None:
    """Undo what the ended RUN of a machine left undone, and say what was undone.

    It is done here, by a run of its own (RUN~undo), with the code of MODULE:APP, which may be left out where the
    configuration names the app. Fix what kept the undo from working first. Running it again does nothing twice.
    """
    app = app_to_serve(target, load())
    refuse_private(app.url)
    run_async(_compensate(app, run_id, Output(is_json=is_json)))


async def _compensate(app: App, run_id: str, out: Output) -> None:
    async with app.worker():
        run = await app.compensate(run_id)
        undone = await run.result()
    if out.is_json:
        out.record({"run": run_id, "by": run.id, "undone": undone})
    else:
        out.line(f"undone: {', '.join(undone)} (run {run.id})")
