"""Refuses the standard library's `sqlite3` on the file of an open store.

Two copies of SQLite in one process do not know of each other's locks: when one closes its handle, POSIX drops the locks
of both, and acknowledged commits were lost that way. The hook sees every way in (paths, bytes, links, `file:` URIs) and
costs one comparison for anything else.
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


def watch(path: Path) -> tuple[int, int]:
    """From now on the file is refused to `sqlite3`. Returns what `unwatch` needs."""
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
    """The store of this file was closed."""
    with _lock:
        _open[file] -= 1
        if _open[file] <= 0:
            del _open[file]


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
    """The files a `database` argument may mean."""
    if not isinstance(database, str | bytes | os.PathLike):
        return []
    path: str | bytes = os.fspath(database)  # pyright: ignore[reportUnknownVariableType]
    text = os.fsdecode(path)
    if text.startswith("file:"):
        return [path, unquote(urlsplit(text).path)]
    return [path]
