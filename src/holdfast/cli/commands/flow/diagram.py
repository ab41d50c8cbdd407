"""`holdfast flow diagram`: a flow file as a picture."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.authoring.flow.diagram import mermaid, svg
from holdfast.authoring.flow.loader import check_file
from holdfast.cli.commands.flow.file import flow_file
from holdfast.cli.output import Output
from holdfast.cli.root import HoldfastCommand


@click.command("diagram", cls=HoldfastCommand)
@flow_file
@click.option("--svg", "is_svg", is_flag=True, help="Print SVG instead of Mermaid.")
@click.option("--json", "is_json", is_flag=True, help="Print one object: kind and text of the diagram.")
def command(file: Path, is_svg: bool, is_json: bool) -> int:
    """Draw a flow FILE as Mermaid text, or as SVG."""
    definition = check_file(file).required()
    picture = (svg if is_svg else mermaid)(definition)
    if is_json:
        Output(is_json=True).record({"kind": "svg" if is_svg else "mermaid", "text": picture})
    else:
        click.echo(picture, nl=False)
    return 0
