"""`holdfast compensate`: finishes the rollback of a machine's run that could not undo everything."""

from __future__ import annotations

import click

from holdfast.app import App
from holdfast.cli.options import actor_option, app_option
from holdfast.cli.output import Output
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.cli.targets import app_to_serve, client_for, refuse_private
from holdfast.client.audit import audited
from holdfast.client.compensation import compensate
from holdfast.config import load


@click.command("compensate", cls=HoldfastCommand)
@click.argument("run_id", metavar="RUN")
@app_option
@actor_option
@click.option("--json", "is_json", is_flag=True, help="Print one object.")
def command(run_id: str, target: str | None, actor: str | None, is_json: bool) -> None:
    """Undo what the ended RUN of a machine left undone, and say what was undone.

    A separate run (RUN~undo) does it here, with the code of the app. First fix what made the undo fail. Running it
    again repeats nothing.
    """
    app = app_to_serve(target, load())
    refuse_private(app.url)
    run_async(_compensate(app, run_id, actor, Output(is_json=is_json)))


async def _compensate(app: App, run_id: str, actor: str | None, out: Output) -> None:
    async with app.worker():
        client = client_for(await app.client(), actor)
        run = await compensate(client, run_id, by_hand=True)
        audited(client.actor, "compensate", run_id, run.id)
        undone = await run.result()
    if out.is_json:
        out.record({"run": run_id, "by": run.id, "undone": undone})
    else:
        out.line(f"undone: {', '.join(undone)} (run {run.id})")
