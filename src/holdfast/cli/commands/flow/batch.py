"""`holdfast flow batch`: runs a flow file over the lines of a file. Running it again resumes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from holdfast.authoring.batch.batch_plan import Order
from holdfast.authoring.flow.loader import check_file
from holdfast.authoring.flow.workflow import Flow
from holdfast.authoring.script.workflows import Call
from holdfast.cli.commands.batch import Request, batch_options, default_id, run_over_file
from holdfast.cli.commands.flow.file import catalog_of, flow_file
from holdfast.cli.commands.flow.run import variable_option, variables_of
from holdfast.cli.output import Output
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.cli.targets import app_to_serve, refuse_private
from holdfast.config import load
from holdfast.core.given_json import given_json


@click.command("batch", cls=HoldfastCommand)
@flow_file
@click.argument("target", metavar="[MODULE:APP]", required=False)
@variable_option
@batch_options("Input file: one JSON value per line.")
def command(
    file: Path,
    target: str | None,
    variables: tuple[tuple[str, str], ...],
    inputs: Path,
    out: str,
    id: str | None,
    concurrency: int,
    order: Order,
    queue: str,
    is_only_client: bool,
    is_json: bool,
) -> int:
    """Run a flow FILE once for each line of a file, with the steps and workflows of an app, and write the results to
    another file.

    The same command resumes where it stopped: items that have ended do not run again. If a line does not match the
    flow's input, nothing starts. The exit code is 1 if any item failed.

    \b
      holdfast flow batch order.yaml shop:app --inputs orders.jsonl --out results.jsonl -c 50
    """
    app = app_to_serve(target, load())
    refuse_private(app.url)
    flow: Flow[Any, Any] = Flow(check_file(file, catalog_of(app)).required(), where=str(file))
    given = variables_of(variables)

    def make(line: bytes) -> Call[Any]:
        return flow(given_json(line, "it"), vars=given)

    asked = Request(
        inputs, out, id or default_id(flow.spec, inputs, given), concurrency, order, queue, not is_only_client
    )
    return run_async(run_over_file(app, flow.spec, make, asked, Output(is_json=is_json)))
