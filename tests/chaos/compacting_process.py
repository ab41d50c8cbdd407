"""Compacts every run of a store, one after the other, and says each on a line, until it is killed."""

from __future__ import annotations

import asyncio
import sys

from holdfast.adapters.sqlite import open_sqlite
from holdfast.ports.runs import Filter
from holdfast.upkeep.compaction import compact


async def main(path: str) -> None:
    store = await open_sqlite(path)
    for row in (await store.list(Filter(), limit=500)).runs:
        await compact(store, row.id, row.no, row.next_ordinal - 1)
        sys.stdout.write(f"{row.id}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
