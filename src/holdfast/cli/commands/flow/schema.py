"""`holdfast flow schema`: what editors check flow files with."""

from __future__ import annotations

import click

from holdfast.authoring.flow.schema import flow_schema
from holdfast.cli.escapes import to_json
from holdfast.cli.root import HoldfastCommand


@click.command("schema", cls=HoldfastCommand)
@click.option("--json", "_is_json", is_flag=True, help="Accepted for consistency; the output is always JSON.")
def command(_is_json: bool) -> int:
    """Print the JSON Schema of flow files. Editors complete and check them with it.

    \b
      holdfast flow schema > flow.schema.json
      # yaml-language-server: $schema=flow.schema.json     (the first line of the flow)
    """
    click.echo(to_json(flow_schema()))
    return 0
