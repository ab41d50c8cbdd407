"""Refuses the standard library's `sqlite3` on the file of an open store.

Two copies of SQLite in one process do not know of each other's locks: when one closes its handle, POSIX drops the locks
of both, and acknowledged commits are lost. The hook recognises every form of address (paths, bytes, links, `file:`
URIs) and costs one comparison for anything else.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from holdfast.errors import StoreRefused

_open: Counter[tuple[int, int]] = Counter()
_lock = threading.Lock()
_is_watching = False
_inherited: set[tuple[int, int]] = set()
"""Files that were open when this process was forked."""


def watch(path: Path) -> tuple[int, int]:
    """Refuses the file to `sqlite3` from now on. Returns what `unwatch` needs."""
    global _is_watching  # noqa: PLW0603 - an audit hook cannot be removed, so there is one for the process
    found = path.stat()
    file = (found.st_dev, found.st_ino)
    with _lock:
        _open[file] += 1
        if not _is_watching:
            sys.addaudithook(_refuse)
            _is_watching = True
    return file


def unwatch(file: tuple[int, int]) -> None:
    """Stops refusing: the store of this file was closed."""
    with _lock:
        _open[file] -= 1
        if _open[file] <= 0:
            del _open[file]


def check_inherited(path: Path) -> None:
    """Refuses a file that was open when this process was forked: SQLite counts the parent's locks on it as held here,
    so a new connection would take none of its own, and write unprotected."""
    if not _inherited or not path.exists():
        return
    found = path.stat()
    if (found.st_dev, found.st_ino) in _inherited:
        raise StoreRefused(
            f"the store {path} was open when this process ({os.getpid()}) was forked. SQLite cannot be "
            "used in such a child: its locks would not hold. Use the app for the first time after the fork, "
            "or close it before (`app.close()`), or start processes with the method 'spawn'."
        )


def _forked() -> None:
    global _lock  # noqa: PLW0603 - another thread of the parent may have had it
    _lock = threading.Lock()
    _inherited.update(_open)
    _open.clear()


os.register_at_fork(after_in_child=_forked)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "sqlite3.connect" or not _open:
        return
    for path in _paths(arguments[0]):
        try:
            found = os.stat(path)  # noqa: PTH116 - the path may be bytes
        except (OSError, ValueError):
            continue
        if (found.st_dev, found.st_ino) in _open:
            raise StoreRefused(
                f"sqlite3.connect({arguments[0]!r}) refused: Holdfast has this file open through another copy of "
                "SQLite, and closing the second one would drop the locks of the first. Use app.connection() instead, "
                "or open the file in another process."
            )


def _paths(database: object) -> list[str | bytes]:
    """The files that a `database` argument may mean."""
    if not isinstance(database, str | bytes | os.PathLike):
        return []
    path: str | bytes = os.fspath(database)  # pyright: ignore[reportUnknownVariableType]
    text = os.fsdecode(path)
    if text.startswith("file:"):
        return [path, unquote(urlsplit(text).path)]
    return [path]
