"""What steps of a Django project need: connections that are closed as Django closes them between requests.

`holdfast worker` does both by itself in a Django project: it sets the project up and adds `DjangoConnections`. A worker
inside your own process needs the hook in its app: `App(hooks=[DjangoConnections()])`.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.authoring.hook import Hook
from holdfast.authoring.script.verbs import Current
from holdfast.errors import InvalidInput

if TYPE_CHECKING:
    from holdfast.app import App

__all__ = ["DjangoConnections", "close_connections"]


class DjangoConnections(Hook):
    """Closes Django's database connections in the threads of `def` steps, by Django's own rule for requests: those that
    are broken or older than `CONN_MAX_AGE`, before each attempt and when the thread has nothing more to do.

    An `async def` step uses Django's async methods, whose connections belong to Django.
    """

    def __init__(self) -> None:
        try:
            self._close: Callable[[], None] = importlib.import_module("django.db").close_old_connections
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "django":
                raise
            raise InvalidInput("DjangoConnections() needs Django: pip install django") from error

    @contextmanager
    def step(self, at: Current) -> Generator[None]:
        """Before the body, in its thread."""
        if _is_thread():
            self._close()
        yield

    def idle(self) -> None:
        """After the last body, in its thread."""
        self._close()


def close_connections(app: App) -> None:
    """Adds the hook to an app that does not have it."""
    if not any(isinstance(hook, DjangoConnections) for hook in app.hooks):
        app.hooks = (*app.hooks, DjangoConnections())


def _is_thread() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return True
    return False
