"""`holdfast tokens`: manages the tokens of the HTTP API and their roles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from holdfast.cli.options import actor_option
from holdfast.cli.output import Output
from holdfast.cli.root import HoldfastCommand
from holdfast.client.audit import audited, this_user
from holdfast.client.inspect.objects import at_text
from holdfast.config import Loaded, load
from holdfast.doors import web

_FILE = click.option("--file", metavar="FILE", help="The file of tokens. [tokens of [http] in the configuration]")
_JSON = click.option("--json", "is_json", is_flag=True, help="Print one object.")


def token_file(loaded: Loaded, given: str | None = None) -> Any:
    """The file of tokens: the named one, or the configured one, beside the configuration."""
    return web("tokens").TokenFile(Path(given) if given else loaded.folder / loaded.settings.http.tokens)


@click.group("tokens")
def command() -> None:
    """Tokens of the HTTP API: make one, list them, revoke one.

    Roles: read sees everything; operate also starts, signals, cancels, pauses, resumes and retries; admin also kills,
    drops messages and acts on many runs at once.
    """


@command.command("add", cls=HoldfastCommand)
@click.argument("name")
@click.option("--role", type=click.Choice(["read", "operate", "admin"]), required=True, help="What it may do.")
@_FILE
@actor_option
@_JSON
def add(name: str, role: str, file: str | None, actor: str | None, is_json: bool) -> None:
    """Make a token for NAME and print it. It is shown only once: the file keeps its hash."""
    tokens = token_file(load(), file)
    made, secret = tokens.add(name, web("tokens").check_role(role))
    audited(actor or this_user(), "tokens add", detail=f"{made.name}, {made.role}")
    out = Output(is_json=is_json)
    out.record({"name": made.name, "role": made.role, "id": made.id, "token": secret}) if is_json else out.line(secret)


@command.command("list", cls=HoldfastCommand)
@_FILE
@_JSON
def list_(file: str | None, is_json: bool) -> None:
    """List tokens: name, role, id, when they were made."""
    out = Output(is_json=is_json)
    rows = [(x.name, x.role, x.id, at_text(x.created_at)) for x in token_file(load(), file).tokens()]
    if is_json:
        names = ("name", "role", "id", "created_at")
        out.record({"tokens": [dict(zip(names, row, strict=True)) for row in rows]})
    elif rows:
        out.table(("NAME", "ROLE", "ID", "MADE"), rows)
    elif out.is_terminal:
        out.line(("no tokens; make one: holdfast tokens add NAME --role read", "dim"))


@command.command("revoke", cls=HoldfastCommand)
@click.argument("name", metavar="NAME|ID")
@_FILE
@actor_option
@_JSON
def revoke(name: str, file: str | None, actor: str | None, is_json: bool) -> None:
    """Revoke a token. Servers notice at once: its sessions and streams end."""
    gone = token_file(load(), file).revoke(name)
    audited(actor or this_user(), "tokens revoke", detail=gone.name)
    out = Output(is_json=is_json)
    out.record({"name": gone.name, "id": gone.id}) if is_json else out.line(f"revoked {gone.name}")
