"""A message as it is typed: to which channel, with which value. Shared by `signal` and `publish`."""

from __future__ import annotations

from typing import Any, cast

import click
import msgspec

from holdfast.cli.parameters import read_text
from holdfast.errors import InvalidInput

message_id_option = click.option("--id", metavar="ID", help="Id of the message; the same id counts once.")


def channel_of(kind: Any, name: str) -> Any:
    """Any value passes: the type is checked where the run takes it."""
    try:
        return kind[Any](name)
    except InvalidInput as error:
        raise click.UsageError(str(error)) from error


def decoded(given: str) -> Any:
    """The value, from JSON."""
    data = read_text(given, "the value")
    try:
        return cast(object, msgspec.json.decode(data))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise click.UsageError(f"the value is not JSON: {error}. Quote strings as JSON: '\"hello\"'.") from None
