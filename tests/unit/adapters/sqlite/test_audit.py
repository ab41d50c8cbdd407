"""The standard library's SQLite beside ours on one file: refused, however the file is named."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.adapters.sqlite import SqliteStore, open_sqlite
from holdfast.errors import StoreRefused

other_library: Any = importlib.import_module("sqlite3")  # by name: importing it is what this project does without

NAMES: dict[str, Callable[[Path], object]] = {
    "text": str,
    "path": lambda path: path,
    "bytes": os.fsencode,
    "relative": lambda path: path.name,
    "roundabout": lambda path: f"{path.parent}/../{path.parent.name}/{path.name}",
    "uri": lambda path: f"file:{path}",
    "uri with options": lambda path: f"file:{path}?mode=ro&cache=shared",
    "uri with a host": lambda path: f"file://localhost{path}",
    "escaped uri": lambda path: f"file:{str(path).replace('e', '%65')}",
}


@pytest.mark.parametrize("name", NAMES)
async def test_an_open_store_is_refused(
    name: str, store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Contract: whatever names the file, the other library does not get it, and the message says what to use."""
    monkeypatch.chdir(path.parent)
    database = NAMES[name](path)
    with pytest.raises(StoreRefused, match=r"app\.connection\(\)"):
        other_library.connect(database, uri=name.endswith("uri") or name.startswith("uri"))


async def test_links_are_followed(store: SqliteStore, path: Path) -> None:
    (path.parent / "soft.db").symlink_to(path)
    (path.parent / "hard.db").hardlink_to(path)
    for name in ("soft.db", "hard.db"):
        with pytest.raises(StoreRefused):
            other_library.connect(path.parent / name)


async def test_other_files_are_nobodys_business(store: SqliteStore, tmp_path: Path) -> None:
    for database in (":memory:", "", tmp_path / "mine.db"):
        other_library.connect(database).close()


async def test_a_closed_store_is_free_again(path: Path) -> None:
    """Contract: with two stores open on the file, the last to close frees it."""
    first, second = await open_sqlite(path), await open_sqlite(path)
    await first.close()
    with pytest.raises(StoreRefused):
        other_library.connect(path)
    await second.close()
    other_library.connect(path).close()
