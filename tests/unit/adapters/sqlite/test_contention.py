"""Writes that wait for other processes: `doctor` says so."""

from __future__ import annotations

from pathlib import Path

import apsw

from holdfast.adapters.sqlite import open_sqlite
from holdfast.authoring.registry import Registry
from holdfast.client.client import Client
from holdfast.client.inspect.findings import store_findings


async def test_a_transaction_that_another_program_left_open_is_reported(tmp_path: Path) -> None:
    """Promise: while a program keeps the write lock, `doctor` says that writes wait, and how to find the program."""
    path = tmp_path / "store.db"
    store = await open_sqlite(path)
    assert not (await store.condition()).warnings
    tool = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    tool.execute("begin immediate")  # pyright: ignore[reportUnknownMemberType]
    found = [x async for x in store_findings(Client(store, Registry())) if x.check == "engine" and x.state == "warning"]
    assert [x.text.split(":")[0] for x in found] == ["a write waited 1.0 s for the write lock in vain"]
    assert f"lsof {path}" in found[0].text
    tool.execute("rollback")  # pyright: ignore[reportUnknownMemberType]
    assert not (await store.condition()).warnings
    tool.close()
    await store.close()
