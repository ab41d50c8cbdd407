"""Reads settings from files, environment and flags. Every value remembers where it was set.

The search goes from the current folder upwards: the first folder with a `holdfast.toml`, or with a `pyproject.toml`
that has `[tool.holdfast]`, is the project's folder, and paths in the file are relative to it. `HOLDFAST_CONFIG` (or
`--config`) names the file instead, and then nothing else is looked for.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from holdfast.config.contradictions import check
from holdfast.config.keys import PREFIX, Key, flattened, from_text, keys, refuse_unknown_variables, typed
from holdfast.config.settings import Configuration
from holdfast.errors import InvalidConfig

FILE, PROJECT = "holdfast.toml", "pyproject.toml"
FILE_VARIABLE = "HOLDFAST_CONFIG"
DEFAULT = "default"

_SQLITE = "sqlite:///"
_parsed: dict[Path, tuple[tuple[int, int], dict[str, Any]]] = {}


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """Settings, the origin of each value, and the folder that paths are relative to."""

    settings: Configuration
    origins: Mapping[str, str]
    folder: Path
    file: Path | None = None

    def is_given(self, name: str) -> bool:
        """Whether the key was set anywhere."""
        return self.origins[name] != DEFAULT


def load(
    *, folder: Path | None = None, environ: Mapping[str, str] | None = None, flags: Mapping[str, Any] | None = None
) -> Loaded:
    """The settings for a folder. `flags` are by key: `{"leases.ttl": timedelta(…)}`, None for not given."""
    here = (folder or Path.cwd()).absolute()
    given = os.environ if environ is None else environ
    file = find_file(here, given)
    base = file.parent if file is not None else here
    values: dict[str, Any] = {}
    origins = dict.fromkeys(keys(), DEFAULT)
    if file is not None:
        for name, raw in flattened(_table(file), str(file)).items():
            values[name], origins[name] = typed(keys()[name], raw, str(file)), str(file)
    noted = _read_env(base / ".env")
    for variables, where in ((noted, f" in {base / '.env'}"), (given, "")):
        refuse_unknown_variables({name: "" for name in variables if name != FILE_VARIABLE})
        for key in keys().values():
            if text := variables.get(key.variable):
                origins[key.name] = f"${key.variable}{where}"
                values[key.name] = from_text(key, text, origins[key.name])
    for name, value in (flags or {}).items():
        if value is not None:
            values[name], origins[name] = value, _flag(keys()[name])
    is_fixed = origins["store.url"] in {DEFAULT, str(file)} and file is not None
    settings = _settings(values, base if is_fixed else None)
    check(settings, origins)
    return Loaded(settings=settings, origins=origins, folder=base, file=file)


def find_file(folder: Path, environ: Mapping[str, str]) -> Path | None:
    """The configuration file for a folder, or None. A file named explicitly must exist."""
    if named := environ.get(FILE_VARIABLE):
        path = (folder / named).absolute()
        if not path.is_file():
            raise InvalidConfig(f"the configuration file does not exist: {path}")
        return path
    for place in (folder, *folder.parents):
        own, project = place / FILE, place / PROJECT
        has_own, has_project = own.is_file(), project.is_file() and _has_section(project)
        if has_own and has_project:
            raise InvalidConfig(f"{own} and [tool.holdfast] in {project} both configure this folder: keep one")
        if has_own or has_project:
            return _trusted(own if has_own else project, folder)
    return None


def _trusted(path: Path, folder: Path) -> Path:
    """Refuses a file in a parent folder that another user could have written: it decides what is imported here."""
    owner = path.stat().st_uid
    if path.parent != folder and hasattr(os, "getuid") and owner not in {0, os.getuid()}:
        raise InvalidConfig(f"{path} belongs to another user; to use it anyway, name it: --config {path}")
    return path


def _has_section(project: Path) -> bool:
    try:
        text = project.read_bytes()
    except OSError:
        return False
    return b"tool.holdfast" in text and bool(_table(project))


def _table(file: Path) -> dict[str, Any]:
    """The contents of a file. Read once for each state of the file: apps of one process ask often."""
    try:
        stat = file.stat()
        state = (stat.st_mtime_ns, stat.st_size)
        known = _parsed.get(file)
        if known is None or known[0] != state:
            known = _parsed[file] = (state, _parse(file))
    except OSError as error:
        raise InvalidConfig(f"{file} cannot be read: {error.strerror}") from error
    return known[1]


def _parse(file: Path) -> dict[str, Any]:
    import tomllib  # only where there is a file

    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"{file} is not TOML: {error}") from None
    if file.name != PROJECT:
        return table
    tool: dict[str, Any] = table.get("tool", {})
    section: dict[str, Any] = tool.get("holdfast", {})
    return section


def _read_env(path: Path) -> dict[str, str]:
    """Our variables in a `.env` beside the configuration: NAME=value, without quotes around the value."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    found: dict[str, str] = {}
    for line in lines:
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and name.strip().startswith(PREFIX):
            text = value.strip()
            is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
            found[name.strip()] = text[1:-1] if is_quoted else text
    return found


def _settings(values: Mapping[str, Any], base: Path | None) -> Configuration:
    """The combined sections; the address of a SQLite file is relative to the project's folder, if that is known."""
    sections: dict[str, dict[str, Any]] = {}
    top: dict[str, Any] = {}
    for name, value in values.items():
        section, dot, last = name.rpartition(".")
        if dot:
            sections.setdefault(section, {})[last] = value
        else:
            top[name] = value
    made = Configuration(**top)
    for section, fields in sections.items():
        changed: Any = msgspec.structs.replace(getattr(made, section), **fields)
        made = msgspec.structs.replace(made, **{section: changed})
    if base is None:
        return made
    return msgspec.structs.replace(made, store=msgspec.structs.replace(made.store, url=_anchored(made.store.url, base)))


def _anchored(url: str, base: Path) -> str:
    path = url.removeprefix(_SQLITE)
    if path == url or path.startswith((":", "/")) or not path:
        return url
    return f"{_SQLITE}{base / path}"


def _flag(key: Key) -> str:
    """The name of the flag. Repeatable options are singular."""
    name = key.name.rpartition(".")[2].replace("_", "-")
    return f"--{name.removesuffix('s') if key.is_list else name}"
