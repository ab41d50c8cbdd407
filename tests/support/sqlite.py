"""SQLite stores of the tests: a file begins as a copy of an empty store that each process makes once.

Making the schema takes ten times as long as a copy. What a new file goes through is tested where that is the point.
"""

from __future__ import annotations

import asyncio
import tempfile
from functools import cache
from pathlib import Path

from holdfast.adapters.sqlite import open_sqlite
from holdfast.adapters.sqlite.store import SqliteStore
from holdfast.ports.clock import Clock


async def open_copy(path: Path, clock: Clock | None = None) -> SqliteStore:
    """The store in that file, empty if there is none yet. It need not survive a power cut, and is faster for it."""
    await asyncio.to_thread(_copy, path)
    return await open_sqlite(path, clock=clock, durability="normal")


def _copy(path: Path) -> None:
    if not path.exists():
        path.write_bytes(_empty())


@cache
def _empty() -> bytes:
    with tempfile.TemporaryDirectory(prefix="holdfast-empty-") as folder:
        path = Path(folder) / "store.db"
        asyncio.run(_make(path))
        return path.read_bytes()


async def _make(path: Path) -> None:
    await (await open_sqlite(path)).close()
