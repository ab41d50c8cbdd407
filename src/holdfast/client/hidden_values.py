"""Values of a run that must not be shown: the secret variables of flows.

They are those of its own flow and of the flows that started it; those that its journal starts flows with; and those of
every flow below a child whose end it recorded, since the result may contain them. What the runs above it know by then
counts too, because it may have been given a child's result: only a batch passes nothing from one item to another.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from holdfast.core import events as e
from holdfast.core.redaction import NOTHING_HIDDEN, Redaction, secrets_of
from holdfast.core.rounds import BATCH
from holdfast.core.turn import decode_row
from holdfast.errors import BlobNotFound, CorruptJournal
from holdfast.ports.runs import Filter
from holdfast.turn.source import load

if TYPE_CHECKING:
    from holdfast.core.turn import Row
    from holdfast.ports.runs import RunRow
    from holdfast.ports.store import Store

DEEPEST: Final = 100
"""Maximum number of ancestors, and of levels of descendants, to check."""
AT_ONCE: Final = 200
"""Runs asked for at once."""
MOST_KNOWN: Final = 500
"""Runs whose secrets are remembered, and kinds of runs known to have none."""


class HiddenValues:
    """The values to hide for each run of a store. What was learnt of a run is remembered: when it is asked for again,
    only what its journal has recorded since is read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[int, _Known] = {}
        self._harmless: set[tuple[str, str, str]] = set()

    async def of(self, row: RunRow, unread: Sequence[e.AnyEvent] = ()) -> Redaction:
        """Hides what must not be shown of a run, as far as its journal and these unread messages say: to be asked for
        after reading what is to be shown. Raises `CorruptJournal` or `BlobNotFound` if its start, or that of a run
        above it, is unreadable."""
        redaction, parent = (await self._caught_up(row)).redaction, row.parent
        if unread:
            more = _Known()
            await self._take(unread, more)
            redaction = redaction.also(more.secrets)
        for _ in range(DEEPEST):
            above = await self._store.get(parent) if parent else None
            if above is None:
                break
            if above.workflow != BATCH:
                redaction = redaction.also((await self._caught_up(above)).secrets)
            parent = above.parent
        return redaction

    async def _caught_up(self, row: RunRow) -> _Known:
        """What is known of a run, with everything that its journal has recorded."""
        known = self._known.pop(row.no, None) or _Known()
        self._known[row.no] = known  # the one that was asked for last is forgotten last
        if len(self._known) > MOST_KNOWN:
            del self._known[next(iter(self._known))]
        async with known.lock:
            if not known.is_begun:
                known.hide(await self._secrets(row))
                known.is_begun = True
            while rows := await self._store.history(row.id, after_seq=known.seq):
                await self._read(row, rows, known)
                known.seq = rows[-1].seq
        if not known.is_whole and self._known.get(row.no) is known:
            del self._known[row.no]  # it may be readable next time
        return known

    async def _read(self, row: RunRow, rows: Sequence[Row], known: _Known) -> None:
        """Learns from rows of the journal. One that cannot be read may have recorded the end of any child."""
        events: list[e.AnyEvent] = []
        for stored in rows:
            try:
                events += await self._events(row, stored)
            except (CorruptJournal, BlobNotFound):
                known.is_whole = False
        if not known.is_whole:
            await self._below({row.id: None}, known)
        await self._take(events, known)

    async def _take(self, events: Sequence[e.AnyEvent], known: _Known) -> None:
        """Learns from events: the flows that they start, and everything below the children whose ends they record."""
        known.hide([secret for event in events for secret in secrets_of(event)])
        ends = {end.run: end for event in events for end in _ended(event)}
        async for child in self._rows([*ends], "ids"):
            await self._learn(child, ends[child.id], known)
        await self._below(ends, known)

    async def _events(self, row: RunRow, stored: Row) -> Sequence[e.AnyEvent]:
        """The events of a row, or those that it replaces."""
        events = decode_row(stored).events
        if any(isinstance(event, e.Compacted) for event in events):
            loaded = await load(self._store, row.no, row.id)
            return [event for turn in loaded.turns for event in turn.events]
        return events

    async def _below(self, above: Mapping[str, e.ChildEnded | None], known: _Known) -> None:
        """Learns the secrets of everything that these runs started, level by level."""
        level = dict(above)
        for _ in range(DEEPEST):
            if not level:
                return
            below: dict[str, e.ChildEnded | None] = {}
            async for row in self._rows([*level], "parents"):
                below[row.id] = end = level[row.parent]
                await self._learn(row, end, known)
            level = below

    async def _learn(self, row: RunRow, end: e.ChildEnded | None, known: _Known) -> None:
        """Learns the secrets of a run. If they cannot be read, the result that may contain them is hidden whole."""
        try:
            known.hide(await self._secrets(row))
        except (CorruptJournal, BlobNotFound):
            known.is_whole = False
            if end is not None:
                with suppress(CorruptJournal, BlobNotFound, msgspec.MsgspecError):
                    result = await self._store.get_blob(end.blob) if end.blob else bytes(end.value)
                    known.hide([msgspec.json.decode(result)] if result else [])

    async def _rows(self, ids: Sequence[str], by: Literal["ids", "parents"]) -> AsyncIterator[RunRow]:
        """The runs with these ids, or those that they started."""
        for at in range(0, len(ids), AT_ONCE):
            some, after, is_more = tuple(ids[at : at + AT_ONCE]), "", True
            which = Filter(ids=some) if by == "ids" else Filter(parents=some)
            while is_more:
                page = await self._store.list(which, after=after, limit=AT_ONCE)
                for row in page.runs:
                    yield row
                after, is_more = page.next, bool(page.next)

    async def _secrets(self, row: RunRow) -> Sequence[Any]:
        """The secrets a flow was started with. The code of a flow is the hash of its definition, which says which of
        its variables are secret."""
        kind = (row.workflow, row.version, row.code)
        if kind in self._harmless:
            return ()
        started = await _start_of(self._store, row)
        if started is not None and started.style == "flow":
            from holdfast.authoring.flow.flow_arguments import secrets_in

            data = await self._store.get_blob(started.blob) if started.blob else bytes(started.value)
            if b'"secrets"' in data:
                return secrets_in(data)
        if started is not None:
            if len(self._harmless) >= MOST_KNOWN:
                self._harmless.clear()
            self._harmless.add(kind)
        return ()


class _Known:
    """What is known of one run: the secrets in it as far as `seq`. It is whole unless something could not be read."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.is_begun = False
        self.is_whole = True
        self.seq = 0
        self.secrets: list[Any] = []
        self._seen: set[bytes] = set()
        self._redaction: Redaction | None = NOTHING_HIDDEN

    @property
    def redaction(self) -> Redaction:
        """Hides them."""
        if self._redaction is None:
            self._redaction = Redaction(self.secrets)
        return self._redaction

    def hide(self, secrets: Sequence[Any]) -> None:
        """Adds secrets."""
        for secret in secrets:
            if (form := msgspec.json.encode(secret)) not in self._seen:
                self._seen.add(form)
                self.secrets.append(secret)
                self._redaction = None


def _ended(event: e.AnyEvent) -> Iterator[e.ChildEnded]:
    """The ends of children that an event records."""
    if isinstance(event, e.Adopted):
        for fact in event.facts:
            yield from _ended(fact)
    elif isinstance(event, e.ChildEnded):
        yield event


async def _start_of(store: Store, row: RunRow) -> e.Started | None:
    rows = await store.history(row.id, limit=1)
    if not rows:
        raise CorruptJournal(f"run {row.id}: its journal is missing")
    first = decode_row(rows[0]).events[0]
    if isinstance(first, e.Compacted):
        first = (await load(store, row.no, row.id)).turns[0].events[0]
    return first if isinstance(first, e.Started) else None
