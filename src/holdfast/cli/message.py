"""A message as it is typed: to which channel, with which value. Shared by `signal` and `publish`."""

from __future__ import annotations

from typing import Any

import click

from holdfast.cli.options import Decorator
from holdfast.errors import InvalidInput

message_id_option: Decorator = click.option("--id", metavar="ID", help="Id of the message; the same id counts once.")


def channel_of(kind: Any, name: str) -> Any:
    """Any value passes here: the run's definition says what it takes, where this command can load it."""
    try:
        return kind[Any](name)
    except InvalidInput as error:
        raise click.UsageError(str(error)) from error
