"""`holdfast flow run`: runs a flow file to its end with its own worker."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from holdfast.app import App
from holdfast.authoring.flow.loader import check_file
from holdfast.authoring.flow.workflow import Flow
from holdfast.authoring.handle import Run
from holdfast.authoring.script.workflows import Call
from holdfast.cli.commands.flow.file import catalog_of, flow_file
from holdfast.cli.commands.start import end_of, outcome_of
from holdfast.cli.options import actor_option
from holdfast.cli.output import Output
from holdfast.cli.parameters import by_name, duration, pair, read_json, read_text
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.cli.targets import app_to_serve, client_for, refuse_private
from holdfast.client.audit import audited
from holdfast.client.start_options import StartOptions
from holdfast.config import load
from holdfast.core.given_json import given_json
from holdfast.errors import InvalidInput

Function = TypeVar("Function", bound=Callable[..., Any])


def variable_option(function: Function) -> Function:
    """`--var NAME=VALUE`."""
    return click.option(
        "--var", "variables", type=pair, multiple=True, metavar="NAME=VALUE",
        help="A variable: JSON or plain text; @FILE keeps secrets off the command line. Repeatable.",
    )(function)  # fmt: skip


@click.command("run", cls=HoldfastCommand)
@flow_file
@click.argument("target", metavar="[MODULE:APP]", required=False)
@click.option("--input", "given", metavar="JSON", default="null", help="The input as JSON; @FILE, or - for stdin.")
@variable_option
@click.option("--id", metavar="ID", help="Id of the run; the same id resumes the same run.")
@click.option("--detach", is_flag=True, help="Only start the run and print its id; a worker of the app runs it.")
@click.option("--timeout", type=duration, help="Maximum time to wait; the run itself continues.")
@actor_option
@click.option("--json", "is_json", is_flag=True, help="Print one object.")
def command(
    file: Path,
    target: str | None,
    given: str,
    variables: tuple[tuple[str, str], ...],
    id: str | None,
    detach: bool,
    timeout: timedelta | None,
    actor: str | None,
    is_json: bool,
) -> int:
    """Run a flow FILE with the steps and workflows of an app, and print its result as JSON.

    The run is durable: after a kill, the same command with the same --id resumes it.

    \b
      holdfast flow run order.yaml shop:app --input '{"id": 1}' --id order-1
    """
    app = app_to_serve(target, load())
    if detach:
        refuse_private(app.url)
    flow: Flow[Any, Any] = Flow(check_file(file, catalog_of(app)).required(), where=str(file))
    try:
        call = flow(read_json(given, "--input"), vars=variables_of(variables))
    except InvalidInput as error:
        raise click.UsageError(str(error)) from error
    return run_async(_run(app, call, id, actor, Output(is_json=is_json), timeout, is_detached=detach))


async def _run(
    app: App,
    call: Call[Any],
    id: str | None,
    actor: str | None,
    out: Output,
    timeout: timedelta | None,
    *,
    is_detached: bool,
) -> int:
    async with app:
        if is_detached:
            run = await start_by_hand(app, call, id, actor)
            out.record({"run": run.id, "outcome": outcome_of(run)}) if out.is_json else out.line(run.id)
            return 0
        async with app.worker():
            run = await start_by_hand(app, call, id, actor)
            return await end_of(run, call.spec, out, timeout)


async def start_by_hand(app: App, call: Call[Any], id: str | None, actor: str | None) -> Run[Any]:
    """Starts the run in the name of the operator."""
    client = client_for(await app.client(), actor)
    run = await client.start(call, StartOptions(id=id, by_hand=True))
    audited(client.actor, "start", run.id, call.spec.name)
    return run


def variables_of(given: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    """The variables given with `--var`, by name."""
    found: dict[str, Any] = {}
    for name, text in by_name(given, "variable").items():
        data = read_text(text, f"--var {name}")
        try:
            msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            found[name] = data.decode(errors="replace").rstrip("\n")
        except RecursionError:
            given_json(data, f"--var {name}")  # says so
        else:
            found[name] = given_json(data, f"--var {name}")
    return found
