"""The file of a flow, and the app whose steps it calls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from holdfast.app import App
from holdfast.authoring.flow.catalog import AppCatalog

Function = TypeVar("Function", bound=Callable[..., Any])


def flow_file(function: Function) -> Function:
    return click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))(function)


def catalog_of(app: App) -> AppCatalog:
    """What an app serves."""
    components = app.registry.components
    return AppCatalog(components.find, components.names)
