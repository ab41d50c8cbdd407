"""`holdfast version`: prints the versions of Holdfast and Python."""

from __future__ import annotations

import platform

import click

from holdfast.cli.output import Output
from holdfast.cli.root import HoldfastCommand


@click.command("version", cls=HoldfastCommand)
@click.option("--json", "is_json", is_flag=True, help="Print one object.")
def command(is_json: bool) -> None:
    """Show which Holdfast this is, and the Python it runs on."""
    import holdfast

    out = Output(is_json=is_json)
    if is_json:
        out.record({"holdfast": holdfast.__version__, "python": platform.python_version()})
    else:
        out.line(f"holdfast {holdfast.__version__} (Python {platform.python_version()})")
