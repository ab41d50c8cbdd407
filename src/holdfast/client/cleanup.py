"""Keeps a store small at an operator's request: a sweep, and compaction of long journals. Workers do both
automatically."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable
from datetime import timedelta

from holdfast.client.client import Client
from holdfast.client.inspect.lookup import find_run
from holdfast.errors import Conflict
from holdfast.ports.runs import Filter, RunRow
from holdfast.upkeep.compaction import compact as compact_rows
from holdfast.upkeep.sweep import DUTY, TTL, Swept, sweep

PAGE = 500


async def clean(
    client: Client, keep: timedelta | None, grace: timedelta, tell: Callable[[Swept], None] = lambda _: None
) -> Swept:
    """Removes expired runs and unused blobs. Raises `Conflict` if a worker is sweeping now."""
    store, holder = client.store, f"gc-{secrets.token_hex(8)}"

    async def is_mine() -> bool:
        return await store.take_duty(DUTY, holder=holder, ttl=TTL)

    if not await is_mine():
        raise Conflict("a worker is sweeping this store just now; it removes the same. Try again later.")
    try:
        return await sweep(store, keep, grace, goes_on=is_mine, tell=tell)
    finally:
        await store.drop_duty(DUTY, holder=holder)


async def compact(client: Client, row: RunRow) -> int:
    """Compacts the journal of a run; returns how many rows were removed."""
    return await compact_rows(client.store, row.id, row.no, row.next_ordinal - 1, client.telemetry.tell)


async def long_journals(client: Client, run_id: str | None, least: int) -> AsyncIterator[tuple[RunRow, int]]:
    """Runs with the number of rows of their journals: the named run, whatever its length, or all with at least that
    many rows."""
    if run_id is not None:
        row = await find_run(client, run_id)
        yield row, await _length(client, row)
        return
    after = ""
    while True:
        page = await client.store.list(Filter(), after=after, limit=PAGE)
        for row in page.runs:
            if row.next_ordinal > least:
                length = await _length(client, row)
                if length >= least:
                    yield row, length
        after = page.next
        if not after:
            return


async def _length(client: Client, row: RunRow) -> int:
    first = await client.store.history(row.id, limit=1)
    return row.next_ordinal - first[0].ordinal if first else 0
