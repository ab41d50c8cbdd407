"""Finds the app or the store that a command line and the configuration name.

`MODULE:APP` and `--url` come first; then the configuration: the address of its store, its app, its folders.
"""

from __future__ import annotations

import importlib
import os
import site
import sys
import traceback
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from holdfast.app import App
from holdfast.authoring.script.functions import is_a
from holdfast.cli.django_project import set_up_project
from holdfast.client.client import Client
from holdfast.config import URL_VARIABLE, Loaded, load
from holdfast.core.hints import did_you_mean
from holdfast.core.ids import check_name
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.stores import missing_store

EXAMPLE = "Write MODULE:APP, such as shop:app for `app = App(…)` in shop.py."


class CommandError(click.ClickException):
    """A command that failed, as one sentence; exit code 1."""


def load_app(target: str, folder: Path | None = None) -> App:
    """The app that `MODULE:APP` names. The folder (else the current one) comes before installed packages, after
    Python's own."""
    name, colon, attribute = target.partition(":")
    if not colon or not name or not attribute:
        raise click.UsageError(f"{target!r} does not name an app. {EXAMPLE}")
    if name.endswith(".py") or "/" in name:
        dotted = name.removesuffix(".py").strip("./").replace("/", ".")
        raise click.UsageError(f"{target!r} is a path. Write {dotted}:{attribute}.")
    place = folder or Path.cwd()
    add_folder(place)
    set_up_project(place, is_asked=False)
    module = import_named(name)
    found: Any = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
        if found is None:
            raise CommandError(_no_attribute(module, attribute))
    app = app_in(found)
    if app is None:
        kind = type(found).__name__
        raise CommandError(f"{target} is not an App but a {kind} ({module.__file__}).{_apps_of(module)}")
    return app


def app_to_serve(target: str | None, loaded: Loaded) -> App:
    """The app of a worker: the named one, the configured one, or one made from what is found in folders."""
    settings = loaded.settings
    if target:
        app = load_app(target)
    elif settings.app:
        app = load_app(settings.app, loaded.folder)
    elif settings.discover:
        from holdfast.cli.discovery import discovered_app

        app = discovered_app(loaded)
    else:
        raise click.UsageError(f"which app? {EXAMPLE} Or set app, or discover, in holdfast.toml.")
    _refuse_other_store(app, loaded)
    return app


@asynccontextmanager
async def opened_client(
    target: str | None, url: str | None, actor: str | None = None, *, has_definitions: bool = False
) -> AsyncGenerator[Client]:
    """The client of an existing store: reading never creates one. It acts in the name of `actor`.
    `has_definitions`: if only the store was named, the client has the workflows of the configured app, as far as
    they can be imported here."""
    async with opened_app(target, url, has_definitions=has_definitions) as app:
        yield client_for(await app.client(), actor)


@asynccontextmanager
async def opened_app(target: str | None, url: str | None, *, has_definitions: bool = False) -> AsyncGenerator[App]:
    """The app of an existing store."""
    app, is_default = store_app(target, url)
    if has_definitions and app.registry.is_empty:
        loaded = load()
        with suppress(click.ClickException):
            if loaded.settings.app:
                app.registry = load_app(loaded.settings.app, loaded.folder).registry
    refuse_private(app.url)
    await refuse_missing(app.url, is_default=is_default)
    async with app:
        yield app


def client_for(client: Client, actor: str | None) -> Client:
    """The client, acting in the given name or as this user."""
    if actor is None:
        return client
    try:
        return client.acting_as(check_name(actor, "--as"))
    except InvalidInput as error:
        raise click.UsageError(str(error)) from error


def store_app(target: str | None, url: str | None) -> tuple[App, bool]:
    """The app whose store to use, and whether no store was named."""
    if target and url:
        raise click.UsageError("give --app or --url, not both")
    if target or url:
        return (load_app(target) if target else App(url)), False
    loaded = load()
    if loaded.settings.app and not loaded.is_given("store.url"):
        return load_app(loaded.settings.app, loaded.folder), False
    return App(config=loaded.settings), not loaded.is_given("store.url")


def _refuse_other_store(app: App, loaded: Loaded) -> None:
    """Refuses two different addresses in one project: a reader of only one of them would look at the wrong store."""
    said, origin = loaded.settings.store.url, loaded.origins["store.url"]
    if app.given_url and origin == str(loaded.file) and _resolved(app.given_url) != _resolved(said):
        raise CommandError(
            f"the app says {app.given_url!r}, and [store] url in {origin} says {said!r}: set it in one place"
        )


def _resolved(url: str) -> str:
    path = url.removeprefix("sqlite:///")
    return url if path == url or path.startswith(":") else os.path.realpath(path)


def refuse_private(url: str) -> None:
    """Refuses a store in the memory of a process, which this command cannot share."""
    if url.startswith("memory:") or url == "sqlite:///:memory:":
        raise CommandError(
            f"{url} lives in the memory of one process, and this is another: "
            "use a store they share, such as sqlite:///holdfast.db"
        )


def app_in(found: Any) -> App | None:
    """The app itself, or the one inside a `holdfast.sync.App`."""
    if is_a(found, App):
        return found
    sync = sys.modules.get("holdfast.sync")
    return found.app if sync is not None and is_a(found, sync.App) else None


async def refuse_missing(url: str, *, is_default: bool = False) -> None:
    """Refuses to create a store in a command that only reads."""
    problem = await missing_store(url)
    if problem:
        hint = f" Name the store with --url or ${URL_VARIABLE}, or the app with --app MODULE:APP."
        is_unsaid = is_default and url.startswith("sqlite:")
        raise CommandError(f"{problem.text}{hint if is_unsaid else f' {problem.hint}'}")


# -- importing ---------------------------------------------------------------------------------------------------------


def add_folder(folder: Path) -> None:
    """Adds a folder to the path: before installed packages, so that the user's module wins, and after the standard
    library, so that a local `json.py` does not replace Python's own."""
    here = str(folder)
    if here in sys.path or ("" in sys.path and folder == Path.cwd()):
        return
    installed = {*site.getsitepackages(), site.getusersitepackages()}
    places = [number for number, path in enumerate(sys.path) if path in installed]
    sys.path.insert(min(places, default=len(sys.path)), here)
    importlib.invalidate_caches()


def import_named(name: str, file: Path | None = None) -> ModuleType:
    """The module of that name. Errors name its file and line."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            here = Path.cwd()
            near = [path.stem for path in here.glob("*.py")] + [path.parent.name for path in here.glob("*/__init__.py")]
            hint = did_you_mean(name, sorted(near))
            place = f" ({file})" if file is not None else ""
            raise CommandError(f"no module {name!r}{place}, neither in {here} nor installed.{hint}") from error
        raise _broken(name, error) from error
    except HoldfastError as error:
        raise _broken(name, error) from error
    except (Exception, SystemExit) as error:
        raise _broken(name, error) from error


def _broken(name: str, error: BaseException) -> CommandError:
    """Where the import of a user's module failed: the last line that is neither Python's import machinery nor ours."""
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
    apps = [name for name, value in vars(module).items() if app_in(value) is not None]
    if not apps:
        return " It has no App: add `app = App(workflows=[…])`."
    return f" It has {' and '.join(f'{module.__name__}:{name}' for name in sorted(apps))}."
