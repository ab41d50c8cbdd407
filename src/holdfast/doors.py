"""Doors to what stands above and needs an extra: loaded by name when somebody asks. A missing package is named with the
command that brings it."""

from __future__ import annotations

import importlib
from typing import Any

from holdfast.errors import InvalidInput
from holdfast.extras import install_command

_PACKAGES = {"starlette", "uvicorn"}


def web(name: str) -> Any:
    """A module of `holdfast.web`."""
    try:
        return importlib.import_module(f"holdfast.web.{name}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in _PACKAGES:
            raise
        raise InvalidInput(f"the HTTP API needs {error.name}. Install it: {install_command('dashboard')}") from error
