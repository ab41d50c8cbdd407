"""Finds workflows in folders: imports every Python file below them and registers what it defines.

A file is imported under the name by which its neighbours import it: relative to the longest entry of Python's path that
holds it, the project's folder and its `src` being two of them. Nothing is imported by a name found in data.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from holdfast.app import App
from holdfast.authoring.script.functions import is_a
from holdfast.authoring.script.workflows import AnyWorkflow
from holdfast.cli.django_project import set_up_project
from holdfast.cli.targets import CommandError, add_folder, app_in, import_named
from holdfast.config import Loaded
from holdfast.errors import DefinitionError

ALWAYS_IGNORED = ("**/.*/**", "**/__pycache__/**", "**/node_modules/**", "**/site-packages/**", "**/conftest.py")


def discovered_app(loaded: Loaded) -> App:
    """An app with every workflow of the folders that `discover` names. If they contain an App, that app is returned."""
    settings = loaded.settings
    files = find_files(loaded.folder, settings.discover, settings.ignore)
    shown = ", ".join(settings.discover)
    if not files:
        raise CommandError(f"discover: no Python file in {shown} (below {loaded.folder}) that is not ignored")
    add_folder(loaded.folder)
    if (loaded.folder / "src").is_dir() and not (loaded.folder / "src" / "__init__.py").exists():
        add_folder(loaded.folder / "src")
    set_up_project(loaded.folder, is_asked=False)
    modules = [(file, import_named(_module_name(file), file)) for file in files]
    app = _only_app(modules) or App(config=settings)
    for file, module in modules:
        values: list[Any] = list(vars(module).values())
        workflows: list[AnyWorkflow[..., Any]] = [value for value in values if is_a(value, AnyWorkflow)]
        for workflow in workflows:
            _register(app, workflow, file)
    if app.registry.is_empty:
        raise CommandError(f"discover: no workflow in {', '.join(str(file) for file in files[:5])}: write @workflow")
    return app


def find_files(base: Path, folders: Sequence[str], ignore: Sequence[str]) -> list[Path]:
    """The Python files of these folders, recursively, by path. A folder that is missing is an error."""
    found: set[Path] = set()
    for name in folders:
        folder = (base / name).resolve()
        if folder.is_file() and folder.suffix == ".py":
            found.add(folder)
        elif folder.is_dir():
            found.update(path for path in folder.rglob("*.py") if path.is_file())
        else:
            raise CommandError(f"discover: there is no folder {folder}")
    patterns = [_compiled(pattern) for pattern in (*ALWAYS_IGNORED, *ignore)]
    return sorted(path for path in found if not _is_ignored(path, base.resolve(), patterns))


def _is_ignored(path: Path, base: Path, patterns: Sequence[re.Pattern[str]]) -> bool:
    """Whether a pattern matches the path relative to the project's folder, or the file's name."""
    relative = path.relative_to(base).as_posix() if path.is_relative_to(base) else path.as_posix().lstrip("/")
    return any(pattern.fullmatch(relative) or pattern.fullmatch(path.name) for pattern in patterns)


def _compiled(pattern: str) -> re.Pattern[str]:
    """`**/` is any number of folders, `*` and `?` stay within one name."""
    text = ""
    for part in re.split(r"(\*\*/|/\*\*$|\*|\?)", pattern.removeprefix("./")):
        text += {"**/": "(?:.*/)?", "/**": "/.*", "*": "[^/]*", "?": "[^/]"}.get(part, re.escape(part))
    return re.compile(text)


def _module_name(file: Path) -> str:
    places = [Path(entry or ".").resolve() for entry in sys.path]
    holding = max((place for place in places if file.is_relative_to(place)), key=lambda place: len(place.parts))
    parts = list(file.relative_to(holding).with_suffix("").parts)
    if parts[-1] == "__init__" and len(parts) > 1:
        parts.pop()
    for part in parts:
        if not part.isidentifier():
            raise CommandError(
                f"discover: {file} cannot be imported: {part!r} is not a module name. Rename or ignore it."
            )
    return ".".join(parts)


def _only_app(modules: Sequence[tuple[Path, ModuleType]]) -> App | None:
    found: dict[int, tuple[App, str]] = {}
    for file, module in modules:
        for name, app in _apps_in(module):
            found.setdefault(id(app), (app, f"{name} in {file}"))
    if len(found) > 1:
        places = " and ".join(place for _, place in found.values())
        raise CommandError(f'discover: two apps, {places}: choose one with app = "MODULE:APP" instead of discover')
    return next((app for app, _ in found.values()), None)


def _apps_in(module: ModuleType) -> Iterator[tuple[str, App]]:
    for name, value in vars(module).items():
        app = app_in(value)
        if app is not None:
            yield name, app


def _register(app: App, workflow: AnyWorkflow[..., Any], file: Path) -> None:
    try:
        app.serve(workflow)
    except DefinitionError as error:
        raise CommandError(f"discover: {file}: {error}") from error
