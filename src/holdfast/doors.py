"""Loads modules of higher layers that need an extra, by name and when needed. The error for a missing package names the
command that installs it."""

from __future__ import annotations

import importlib
from typing import Any

from holdfast.errors import InvalidInput
from holdfast.extras import missing_sentence

_PACKAGES = {"starlette", "uvicorn"}


def web(name: str) -> Any:
    """A module of `holdfast.web`."""
    try:
        return importlib.import_module(f"holdfast.web.{name}")
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _PACKAGES:
            raise
        raise InvalidInput(missing_sentence("dashboard", "the HTTP API needs", package)) from error
