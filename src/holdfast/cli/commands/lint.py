"""`holdfast lint`: finds code in workflow bodies that would not replay."""

from __future__ import annotations

from dataclasses import asdict

import click

from holdfast.cli.output import Output
from holdfast.cli.root import HoldfastCommand
from holdfast.cli.targets import app_to_serve
from holdfast.config import load
from holdfast.core.plurals import counted


@click.command("lint", cls=HoldfastCommand)
@click.argument("target", metavar="[MODULE:APP]", required=False)
@click.option("--json", "is_json", is_flag=True, help="Print one object.")
def command(target: str | None, is_json: bool) -> int:
    """Find code in workflow bodies, and in your functions that they call, that may vary on replay: clocks,
    randomness, the environment, sets, I/O, threads, what is never awaited, globals, swallowed cancellation.

    It imports the app and executes nothing else. Allow a line with the comment `# holdfast: allow RULE`. Exit
    code 1 if something was found.
    """
    from holdfast.lint import lint

    out = Output(is_json=is_json)
    report = lint(app_to_serve(target, load()))
    if is_json:
        out.record(asdict(report))
    else:
        for finding in report.findings:
            out.line((f"{finding.file}:{finding.line}:{finding.column}", "bold"), " ", (f"[{finding.rule}]", "yellow"))
            path = " → ".join((finding.workflow, *finding.through))
            out.line(f"    {finding.what}, in ", (path, "cyan"))
            out.line(f"    {finding.instead}")
        for name in report.unread:
            out.line(("not read: ", "yellow"), f"{name}, its source is missing")
        count = len(report.findings)
        verdict = f"{count} would not replay" if count else "nothing found"
        out.line(
            f"{counted(report.workflows, 'workflow')}, {counted(report.functions, 'function')}: ",
            (verdict, "red" if count else "green"),
        )
    return 1 if report.findings else 0
