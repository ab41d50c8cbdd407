"""A nightly import: pages are fetched no faster than the source allows, and loaded so that a repeat changes nothing.

holdfast worker examples.nightly_etl:app
holdfast schedules trigger nightly        # now, instead of at three
"""

from __future__ import annotations

import msgspec

from holdfast import App, Limit, Retry, RetryAfter, RunVar, Schedule, each, step, workflow

source = Limit("source", rate="10/s", burst=1, at_once=4)
"""What the source bears, over all workers."""

loaded = RunVar[int]("loaded")
PAGES, ROWS = 12, 50
STATE: dict[str, int] = {}
"""Stands for the warehouse: rows by key."""


class Row(msgspec.Struct, frozen=True):
    key: str
    cents: int


class Busy(Exception):
    """The source asks for patience."""


@step
async def pages(day: str) -> list[int]:
    return list(range(PAGES))


@step(limits=[source], retry=Retry(5, first="1s", on=ConnectionError), timeout="1m")
async def extract(page: int) -> list[Row]:
    """One request. It waits for its turn without holding a worker; a 429 holds everybody back, and is no failure."""
    try:
        return await fetch(page)
    except Busy as busy:
        raise RetryAfter("30s", limit=source) from busy


@step
async def load(rows: list[Row]) -> int:
    """Rows have keys: loading a page again after a crash changes nothing."""
    STATE.update({row.key: row.cents for row in rows})
    return len(rows)


@workflow
async def import_page(page: int) -> int:
    return await load(await extract(page))


@workflow(keep="90d")
async def nightly_import(day: str) -> int:
    """A child for each page: a page that fails can be looked at and retried alone."""
    counts = await each(import_page, await pages(day), limit=8)
    loaded.set(sum(counts))
    return sum(counts)


async def fetch(page: int) -> list[Row]:
    """Stands for the request to the source."""
    return [Row(f"sku-{page}-{number}", 100 + number) for number in range(ROWS)]


nightly = Schedule("nightly", nightly_import("all"), cron="0 3 * * *", tz="Europe/Berlin", catch_up="2h")
app = App("sqlite:///etl.db", workflows=[nightly_import, import_page], schedules=[nightly])
