"""Sets up the Django project that an app belongs to, as `manage.py` would."""

from __future__ import annotations

import ast
import importlib
import os
from pathlib import Path
from typing import Any

from holdfast.errors import InvalidInput

VARIABLE = "DJANGO_SETTINGS_MODULE"


def set_up_project(folder: Path, *, is_asked: bool) -> bool:
    """Sets up the project of `$DJANGO_SETTINGS_MODULE`, else of the `manage.py` in the folder. Whether there is one.

    Models can be imported afterwards, which fails otherwise. Setting up twice does nothing, so an app may do it too.
    The folder is on Python's path already.
    """
    settings = os.environ.get(VARIABLE) or settings_in(folder / "manage.py")
    if not settings:
        if is_asked:
            raise InvalidInput(f"--django: no project found. Set {VARIABLE}, or run this where manage.py is ({folder})")
        return False
    try:
        django: Any = importlib.import_module("django")
    except ModuleNotFoundError as error:
        if is_asked:
            raise InvalidInput("--django: Django is not installed here: pip install django") from error
        return False
    os.environ[VARIABLE] = settings
    try:
        django.setup()
    except (Exception, SystemExit) as error:
        raise InvalidInput(
            f"Django cannot be set up with the settings {settings}: {type(error).__name__}: {error}"
        ) from error
    return True


def settings_in(file: Path) -> str | None:
    """The settings that a `manage.py` names: `os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")`. The
    file is read, not run."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="setdefault"),
                args=[ast.Constant(value="DJANGO_SETTINGS_MODULE"), ast.Constant(value=str(name))],
            ):
                return name
            case _:
                pass
    return None
