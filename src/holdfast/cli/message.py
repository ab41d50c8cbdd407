"""The channel and value of a message on the command line. Shared by `signal` and `publish`."""

from __future__ import annotations

from typing import Any

import click

from holdfast.cli.options import Decorator
from holdfast.errors import InvalidInput

message_id_option: Decorator = click.option("--id", metavar="ID", help="Id of the message; the same id counts once.")


def channel_of(kind: Any, name: str) -> Any:
    """A channel that accepts any value. If this command can load the run's definition, that checks the value."""
    try:
        return kind[Any](name)
    except InvalidInput as error:
        raise click.UsageError(str(error)) from error
