"""Writes that wait for other sessions: `doctor` says so."""

from __future__ import annotations

import asyncio

import psycopg

from holdfast.adapters.postgres import open_postgres
from tests.support.postgres import clean_url


async def test_a_session_that_left_its_transaction_open_is_reported() -> None:
    """Promise: while a session blocks others for a second, `doctor` says that they wait, and for whom."""
    url = clean_url("&notices=off")
    store = await open_postgres(url)
    assert not (await store.condition()).warnings
    address = url.split("?")[0]
    with psycopg.connect(address, application_name="a tool") as tool, psycopg.connect(address) as other:
        tool.execute("SELECT pg_advisory_xact_lock(4711)")
        waits = asyncio.ensure_future(asyncio.to_thread(other.execute, "SELECT pg_advisory_xact_lock(4711)"))
        async with asyncio.timeout(20):
            while not (found := (await store.condition()).warnings):  # noqa: ASYNC110 the server tells nobody
                await asyncio.sleep(0.05)
        assert found[0].startswith("1 session of this database waits for a lock, the longest for ")
        assert f"blocked by process {tool.info.backend_pid} (a tool, idle in transaction)" in found[0]
        tool.rollback()
        await waits
    await store.close()
