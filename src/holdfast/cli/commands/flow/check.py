"""`holdfast flow check`: reports what is wrong with a flow file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from holdfast.app import App
from holdfast.authoring.flow.format import definition_bytes
from holdfast.authoring.flow.loader import Checked, check_file
from holdfast.cli.commands.flow.file import catalog_of, flow_file
from holdfast.cli.output import Output
from holdfast.cli.root import HoldfastCommand
from holdfast.cli.targets import app_to_serve
from holdfast.config import load
from holdfast.core.payload import hash_of
from holdfast.errors import Problem


@click.command("check", cls=HoldfastCommand)
@flow_file
@click.argument("target", metavar="[MODULE:APP]", required=False)
@click.option("--json", "is_json", is_flag=True, help="Print one object.")
def command(file: Path, target: str | None, is_json: bool) -> int:
    """Check a flow FILE (YAML, or JSON if it is named so) and print every problem with its line and column.

    With an app, the command also checks that the steps and workflows the flow calls exist and accept their arguments.
    Exit code 0: no problems (there may be warnings). 1: problems.
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


def _app(target: str | None) -> App | None:
    """The app that was named or is configured, or None."""
    loaded = load()
    is_known = target or loaded.settings.app or loaded.settings.discover
    return app_to_serve(target, loaded) if is_known else None


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
