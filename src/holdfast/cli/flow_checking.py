"""`holdfast flow check`, `diagram` and `schema`: what can be said of a flow file without running it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from holdfast.app import App
from holdfast.authoring.flow.catalog import AppCatalog
from holdfast.authoring.flow.diagram import mermaid, svg
from holdfast.authoring.flow.format import definition_bytes
from holdfast.authoring.flow.loader import Checked, check_file
from holdfast.authoring.flow.schema import flow_schema
from holdfast.cli.escaping import to_json
from holdfast.cli.loading import app_to_serve
from holdfast.cli.output import Output
from holdfast.cli.root import HoldfastCommand
from holdfast.config import load
from holdfast.core.payload import hash_of
from holdfast.errors import Problem

Function = TypeVar("Function", bound=Callable[..., Any])


def flow_file(function: Function) -> Function:
    return click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))(function)


def catalog_of(app: App) -> AppCatalog:
    """What an app serves."""
    components = app.registry.components
    return AppCatalog(components.find, components.names)


def _app(target: str | None) -> App | None:
    """The app that was named or is configured; None if there is none."""
    loaded = load()
    is_known = target or loaded.settings.app or loaded.settings.discover
    return app_to_serve(target, loaded) if is_known else None


@click.command("check", cls=HoldfastCommand)
@flow_file
@click.argument("target", metavar="[MODULE:APP]", required=False)
@click.option("--json", "is_json", is_flag=True, help="Print one object.")
def check(file: Path, target: str | None, is_json: bool) -> int:
    """Check a flow FILE (YAML, or JSON if it is named so) and print every problem with its line and column.

    With an app, what the flow calls is checked too: that it is there, and takes what it is given. Exit code 0: nothing
    is wrong (there may be warnings). 1: something is.
    """
    app = _app(target)
    checked = check_file(file, None if app is None else catalog_of(app))
    out = Output(is_json=is_json)
    if is_json:
        out.record(_as_object(checked))
    else:
        for problem in checked.problems:
            out.line(str(problem))
        out.line(_summary(checked))
    return 0 if checked.definition is not None else 1


@click.command("diagram", cls=HoldfastCommand)
@flow_file
@click.option("--svg", "is_svg", is_flag=True, help="Print SVG instead of Mermaid.")
@click.option("--json", "is_json", is_flag=True, help="Print one object: kind and text of the diagram.")
def diagram(file: Path, is_svg: bool, is_json: bool) -> int:
    """Draw a flow FILE as Mermaid text, or as SVG."""
    definition = check_file(file).required()
    picture = (svg if is_svg else mermaid)(definition)
    if is_json:
        Output(is_json=True).record({"kind": "svg" if is_svg else "mermaid", "text": picture})
    else:
        click.echo(picture, nl=False)
    return 0


@click.command("schema", cls=HoldfastCommand)
@click.option("--json", "_is_json", is_flag=True, help="Accepted for consistency; the output is always JSON.")
def schema(_is_json: bool) -> int:
    """Print the JSON Schema of flow files. Editors complete and check them with it.

    \b
      holdfast flow schema > flow.schema.json
      # yaml-language-server: $schema=flow.schema.json     (the first line of the flow)
    """
    click.echo(to_json(flow_schema()))
    return 0


def _summary(checked: Checked) -> str:
    warnings = sum(problem.is_warning for problem in checked.problems)
    wrong = len(checked.problems) - warnings
    counted = f"{_counted(wrong, 'problem')}, {_counted(warnings, 'warning')}"
    if checked.definition is None:
        return f"{checked.where}: {counted}"
    steps = _counted(len(checked.definition.steps), "step")
    return f"{checked.where}: flow {checked.definition.name}, {steps}: {counted}"


def _counted(number: int, word: str) -> str:
    return f"{number or 'no'} {word}{'' if number == 1 else 's'}"


def _as_object(checked: Checked) -> dict[str, Any]:
    flow = checked.definition
    return {
        "file": checked.where,
        "ok": flow is not None,
        "name": None if flow is None else flow.name,
        "version": None if flow is None else flow.version,
        "hash": None if flow is None else hash_of(definition_bytes(flow)),
        "steps": None if flow is None else [step.name for step in flow.steps],
        "problems": [_problem_object(problem) for problem in checked.problems],
    }


def _problem_object(problem: Problem) -> dict[str, Any]:
    severity = "warning" if problem.is_warning else "error"
    return {"message": problem.message, "line": problem.line, "column": problem.column, "severity": severity}
