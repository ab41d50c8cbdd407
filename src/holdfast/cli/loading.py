"""From what was typed to an app or a store: `MODULE:APP`, `--url`, `$HOLDFAST_URL`, the default."""

from __future__ import annotations

import difflib
import importlib
import os
import site
import sys
import traceback
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from holdfast.app import App
from holdfast.client.client import Client
from holdfast.config import DEFAULT_URL, URL_VARIABLE
from holdfast.errors import HoldfastError

EXAMPLE = "Write MODULE:APP, such as shop:app for `app = App(…)` in shop.py."


class CommandError(click.ClickException):
    """A command that cannot be done, in a sentence; exit code 1."""


def load_app(target: str) -> App:
    """The app that `MODULE:APP` names. The current folder comes before installed packages, after Python's own."""
    name, colon, attribute = target.partition(":")
    if not colon or not name or not attribute:
        raise click.UsageError(f"{target!r} names no app. {EXAMPLE}")
    if name.endswith(".py") or "/" in name:
        dotted = name.removesuffix(".py").strip("./").replace("/", ".")
        raise click.UsageError(f"{target!r} is a path. Write {dotted}:{attribute}.")
    _add_current_folder()
    module = _import(name)
    found: Any = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
        if found is None:
            raise CommandError(_no_attribute(module, attribute))
    app = _app_in(found)
    if app is None:
        kind = type(found).__name__
        raise CommandError(f"{target} is no App but a {kind} ({module.__file__}).{_apps_of(module)}")
    return app


@asynccontextmanager
async def opened_client(target: str | None, url: str | None) -> AsyncGenerator[Client]:
    """The client of a store that is there already: reading never makes one."""
    if target and url:
        raise click.UsageError("give MODULE:APP or --url, not both")
    app = load_app(target) if target else App(url or os.environ.get(URL_VARIABLE) or DEFAULT_URL)
    refuse_private(app.url)
    _refuse_missing(app.url, is_default=not (target or url or os.environ.get(URL_VARIABLE)))
    async with app:
        yield await app.client()


def refuse_private(url: str) -> None:
    """A store in the memory of a process cannot be shared with this command."""
    if url.startswith("memory:") or url == "sqlite:///:memory:":
        raise CommandError(
            f"{url} lives in the memory of one process, and this is another: "
            "use a store they share, such as sqlite:///holdfast.db"
        )


def did_you_mean(word: str, known: list[str]) -> str:
    """A hint for a word that is not among the known ones, or nothing."""
    near = difflib.get_close_matches(word, known, n=3, cutoff=0.6)
    near += [one for one in known if word and one.startswith(word) and one not in near][: 3 - len(near)]
    return f" Did you mean {' or '.join(near)}?" if near else ""


def _app_in(found: Any) -> App | None:
    """The app itself, or the one inside a `holdfast.sync.App`."""
    if isinstance(found, App):
        return found
    sync = sys.modules.get("holdfast.sync")
    return found.app if sync is not None and isinstance(found, sync.App) else None


def _refuse_missing(url: str, *, is_default: bool) -> None:
    if not url.startswith("sqlite:"):
        return
    from holdfast.adapters.sqlite.location import locate

    path = locate(url).path
    if not path.exists():
        hint = (
            f"Name the store with --url or ${URL_VARIABLE}, or give MODULE:APP." if is_default else "Is the path right?"
        )
        raise CommandError(f"there is no store at {url} (no file {path}). {hint}")


# -- importing ---------------------------------------------------------------------------------------------------------


def _add_current_folder() -> None:
    """Before installed packages, so that the user's module wins; after the standard library, so that a `json.py` lying
    around here does not replace Python's own."""
    here = str(Path.cwd())
    if here in sys.path or "" in sys.path:
        return
    installed = {*site.getsitepackages(), site.getusersitepackages()}
    places = [number for number, path in enumerate(sys.path) if path in installed]
    sys.path.insert(min(places, default=len(sys.path)), here)
    importlib.invalidate_caches()


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            here = Path.cwd()
            near = [path.stem for path in here.glob("*.py")] + [path.parent.name for path in here.glob("*/__init__.py")]
            hint = did_you_mean(name, sorted(near))
            raise CommandError(f"no module {name!r}, neither in {here} nor installed.{hint}") from error
        raise _broken(name, error) from error
    except HoldfastError as error:
        raise _broken(name, error) from error
    except (Exception, SystemExit) as error:
        raise _broken(name, error) from error


def _broken(name: str, error: BaseException) -> CommandError:
    """Where the import of a user's module failed: the last line that is not the import machinery's or ours."""
    if isinstance(error, SyntaxError) and error.filename:
        return CommandError(f"{name} cannot be imported: {error.filename}:{error.lineno}: {error.msg}")
    frames = traceback.extract_tb(error.__traceback__)
    ours = str(Path(__file__).resolve().parents[1])
    authored = [x for x in frames if not x.filename.startswith(("<frozen", ours)) and "/importlib/" not in x.filename]
    place = f" at {authored[-1].filename}:{authored[-1].lineno}" if authored else ""
    if isinstance(error, SystemExit):
        return CommandError(f"{name} cannot be imported: it ends the process{place} (SystemExit: {error.code})")
    kind = "" if isinstance(error, HoldfastError) else f"{type(error).__name__}: "
    return CommandError(f"{name} cannot be imported: {kind}{error}{place and f' ({place.strip()})'}")


def _no_attribute(module: ModuleType, attribute: str) -> str:
    text = f"module {module.__name__} ({module.__file__}) has no {attribute!r}.{_apps_of(module)}"
    local = Path.cwd() / f"{module.__name__}.py"
    if local.exists() and module.__file__ and not local.samefile(module.__file__):
        text += f" There is a {local.name} here too, but Python's own module of that name comes first: rename it."
    return text


def _apps_of(module: ModuleType) -> str:
    apps = [name for name, value in vars(module).items() if _app_in(value) is not None]
    if not apps:
        return " It has no App: add `app = App(workflows=[…])`."
    return f" It has {' and '.join(f'{module.__name__}:{name}' for name in sorted(apps))}."
