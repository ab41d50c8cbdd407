"""Keeps a store from growing: removes expired trees and unused blobs, in bounded pieces, each a separate transaction,
with pauses in between. It may be killed anywhere."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import msgspec

from holdfast.ports.runs import Filter
from holdfast.ports.store import Store
from holdfast.ports.upkeep import Collected, KeepsFiles, Removed

DUTY = "sweep"
TTL = timedelta(minutes=2)
"""How long a silent sweeper keeps others from sweeping."""

TREES, BLOBS, FILES = 20, 200, 500
"""Maximum amount of one piece."""

GRACE = timedelta(days=1)
"""How long an unused blob is kept."""

BREATH = 0.01


class Swept(msgspec.Struct, frozen=True):
    """What a sweep removed, or would remove; `later` are blobs whose grace begins when its trees are removed."""

    removed: Removed = Removed()
    collected: Collected = Collected()
    later: Collected = Collected()


async def _always() -> bool:
    return True


async def sweep(
    store: Store,
    keep: timedelta | None,
    grace: timedelta = GRACE,
    *,
    goes_on: Callable[[], Awaitable[bool]] = _always,
    tell: Callable[[Swept], None] = lambda _: None,
) -> Swept:
    """Removes what can be removed, until nothing is left or `goes_on` returns False."""
    swept = Swept()
    after = ""
    while await goes_on():
        page = await store.expired(keep, after=after, limit=TREES)
        if page.roots:
            one = await store.remove(page.roots, keep)
            swept = Swept(_sum(swept.removed, one), swept.collected)
            tell(swept)
        after = page.next
        if not after:
            break
        await asyncio.sleep(BREATH)
    while await goes_on():
        found = await store.collect(grace, limit=BLOBS)
        both = Collected(swept.collected.blobs + found.blobs, swept.collected.bytes + found.bytes)
        swept = Swept(swept.removed, both)
        tell(swept)
        if found.blobs < BLOBS:
            break
        await asyncio.sleep(BREATH)
    if isinstance(store, KeepsFiles):
        await _sweep_files(store, grace, goes_on)
    return swept


async def _sweep_files(store: KeepsFiles, grace: timedelta, goes_on: Callable[[], Awaitable[bool]]) -> None:
    """Removes what crashed writers left beside the store."""
    after = ""
    while await goes_on():
        after = await store.collect_files(grace, after=after, limit=FILES)
        if not after:
            break
        await asyncio.sleep(BREATH)


async def sweepable(store: Store, keep: timedelta | None, grace: timedelta = GRACE) -> Swept:
    """What a sweep would remove now, and the blobs that would follow after their grace."""
    runs = rows = 0
    roots: list[str] = []
    after = ""
    while True:
        page = await store.expired(keep, after=after, limit=TREES)
        for root in page.roots:
            in_tree = await _count(store, root)
            runs, rows = runs + in_tree[0], rows + in_tree[1]
        roots += page.roots
        after = page.next
        if not after:
            break
    later = await store.held_only_by(roots) if roots else Collected()
    return Swept(Removed(len(roots), runs, rows), await store.collect(grace, is_dry=True), later)


async def _count(store: Store, root: str) -> tuple[int, int]:
    """Runs of a tree, and their journal rows."""
    runs = rows = 0
    after = ""
    while True:
        page = await store.list(Filter(root=root), after=after, limit=500)
        for run in page.runs:
            runs += 1
            first = await store.history(run.id, limit=1)
            rows += run.next_ordinal - first[0].ordinal if first else 0
        after = page.next
        if not after:
            return runs, rows


def _sum(one: Removed, other: Removed) -> Removed:
    return Removed(one.trees + other.trees, one.runs + other.runs, one.rows + other.rows)
