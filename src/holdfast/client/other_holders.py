"""Where else a store has a value that is taken out of one run: runs of its tree, its retries, and those it had to do
with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import msgspec

from holdfast.authoring.handle import LeftIn
from holdfast.client.kept_contents import KeptContents, held_blobs, read_contents
from holdfast.core.erasure import Erasure
from holdfast.core.guards import is_dict, is_list
from holdfast.core.redaction import Redaction
from holdfast.errors import BlobNotFound, CorruptJournal, RunNotFound
from holdfast.ports.rewritten import Rewritten
from holdfast.ports.runs import Filter, RunRow
from holdfast.ports.store import Store

SEARCHED = 1000
"""Maximum number of other runs to read."""

LISTED = 20
"""Maximum number of places to name in each run."""

PAGE = 200


class _Search(Erasure):
    """Notes the places where something is, each as narrow as can be: redacting there takes nothing else."""

    def __init__(self, redaction: Redaction) -> None:
        super().__init__(())
        self._sought = redaction

    def learn(self, place: str, value: Any) -> None:
        """Sees a value at its place, as plain JSON."""
        if is_list(value):
            for number, item in enumerate(value):
                self.learn(f"{place}.{number}", item)
        elif is_dict(value):
            for key, item in value.items():
                self.learn(f"{place}.{key}", item)
                if self._sought.is_in(key):
                    self.places[place] = None
        elif self._sought.is_in(value if isinstance(value, str) else msgspec.json.encode(value).decode()):
            self.places[place] = None


async def left_in_itself(store: Store, kept: KeptContents, new: Rewritten, redaction: Redaction) -> list[LeftIn]:
    """What still has the value in the run itself: names and ids, which nothing changes, and blobs of a user."""
    row = kept.row
    found = list(_named(row, redaction))
    hits = (one.ordinal for one in new.rows if redaction.is_in(one.body.decode(errors="replace")))
    found += [_left(row, f"a name, key or id in row {ordinal}") for ordinal in hits]
    names = [name for source in new.references.values() for name in source if name not in {*new.blobs, *new.segments}]
    found += await _in_blobs(store, row, names, redaction)
    return found[:LISTED]


async def left_in_others(store: Store, kept: KeptContents, redaction: Redaction) -> tuple[list[LeftIn], int, bool]:
    """Other runs that have the value, by place; how many were read; and whether there were more."""
    found: list[LeftIn] = []
    searched = 0
    async for row in _others(store, kept):
        if searched == SEARCHED:
            return found, searched, True
        searched += 1
        try:
            found += await _left_in(store, row, redaction)
        except RunNotFound:
            continue
        except (CorruptJournal, BlobNotFound) as error:
            found.append(_left(row, f"unknown, since it cannot be read: {error}"))
    return found, searched, False


async def _left_in(store: Store, row: RunRow, redaction: Redaction) -> list[LeftIn]:
    kept, search = await read_contents(store, row), _Search(redaction)
    await asyncio.to_thread(kept.teach, search)
    found = [*_named(row, redaction), *(_left(row, place) for place in search.places)]
    names = kept.contents.references - set(kept.blobs)
    return [*found, *await _in_blobs(store, row, names, redaction)][:LISTED]


async def _in_blobs(store: Store, row: RunRow, names: Iterable[str], redaction: Redaction) -> list[LeftIn]:
    return [
        _left(row, f"blob {name}")
        async for name, data in held_blobs(store, list(names))
        if redaction.is_in(data.decode(errors="replace"))
    ]


async def _others(store: Store, kept: KeptContents) -> AsyncIterator[RunRow]:
    """Its tree, its retries, then the runs it had to do with; each once."""
    seen = {kept.row.id}
    for which in (
        Filter(root=kept.row.root, is_oldest_first=True),
        Filter(prefix=f"{kept.row.id}~"),
        Filter(ids=tuple(sorted(kept.partners))) if kept.partners else None,
    ):
        after, has_more = "", which is not None
        while which is not None and has_more:
            page = await store.list(which, after=after, limit=PAGE)
            for row in page.runs:
                if row.id not in seen:
                    seen.add(row.id)
                    yield row
            after, has_more = page.next, bool(page.next)


def _named(row: RunRow, redaction: Redaction) -> list[LeftIn]:
    named = {"its id": row.id, "its key": row.key, "its queue": row.queue}
    return [_left(row, place) for place, text in named.items() if redaction.is_in(text)]


def _left(row: RunRow, place: str) -> LeftIn:
    return LeftIn(run=row.id, place=place, status=row.status)
