"""`holdfast config`: every setting, its value, and where it was set."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from holdfast.cli.output import Output, Part
from holdfast.cli.root import HoldfastCommand
from holdfast.config import Loaded, load
from holdfast.config.addresses import without_secrets
from holdfast.config.keys import keys, shown
from holdfast.core.redaction import HIDDEN


@click.command("config", cls=HoldfastCommand)
@click.option("--json", "is_json", is_flag=True, help="Print one object.")
def command(is_json: bool) -> None:
    """Show the value of every setting and where it came from: the file, a variable, or the default.

    In a pipe one line each, tab-separated: key, value, origin. Passwords in addresses are left out.
    """
    out, loaded = Output(is_json=is_json), load()
    settings = {name: (_value(loaded, name), loaded.origins[name]) for name in keys()}
    if is_json:
        made = {name: {"value": _plain(value), "origin": origin} for name, (value, origin) in settings.items()}
        out.record({"file": str(loaded.file) if loaded.file else None, "settings": made})
        return
    if out.is_terminal:
        out.line(("file  ", "dim"), str(loaded.file) if loaded.file else "none, from here upwards")
        out.line("")
    rows: list[tuple[Part, ...]] = [
        (name, shown(value), (_origin(origin, loaded), "dim" if origin == "default" else "green"))
        for name, (value, origin) in settings.items()
    ]
    out.table(("KEY", "VALUE", "FROM"), rows, is_folded=True)


def _value(loaded: Loaded, name: str) -> Any:
    value: Any = loaded.settings
    for part in name.split("."):
        value = getattr(value, part)
    if name.endswith(".session_key") and value:
        return HIDDEN
    return without_secrets(value) if isinstance(value, str) and "://" in value else value


def _plain(value: Any) -> Any:
    plain: Any = msgspec.json.decode(shown(value))
    return plain


def _origin(origin: str, loaded: Loaded) -> str:
    return loaded.file.name if loaded.file is not None and origin == str(loaded.file) else origin
