"""A store whose blobs have a home outside it: the bytes are durable there before the store hears of them.

The store keeps a stub of each (name, size, age, references), so what refers to a blob, and when it may go, is decided
in the store's own transactions. Verbs that neither write nor read blobs go straight to the store.

The store recognises its home by a mark (`Blobs.mark`), set by the first process that names a home. A process that was
not told of the home can do everything that needs no blobs. Anything else is refused before it writes: bytes put into
the store would never be found, and runs whose payloads are in the home would look damaged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

import msgspec

from holdfast.adapters.blobs.untold_home import UntoldHome
from holdfast.core.definition import DefinitionBytes
from holdfast.core.references import referred_by
from holdfast.core.snapshot import Snapshot
from holdfast.ports.blob_home import BlobHome
from holdfast.ports.blobs import BlobData, BlobKind, Stub
from holdfast.ports.clock import Clock
from holdfast.ports.condition import Condition, Diagnosable, FindsDamage
from holdfast.ports.inbox import Delivery, Message, Publication
from holdfast.ports.journal import Answer, Commit, Verdict
from holdfast.ports.leases import TakeOver, WorkerRow
from holdfast.ports.rewritten import Rewritten
from holdfast.ports.runs import Creation, NewRun
from holdfast.ports.schedules import Move, Moving
from holdfast.ports.store import Store
from holdfast.ports.transactions import OpenTransaction, Settlement
from holdfast.ports.upkeep import Collected

UNHEARD = timedelta(hours=1)
"""Minimum age of bytes in the home before they may be collected, however short the grace: they arrive there before the
store hears of them."""


async def open_home(store: Store, home: BlobHome | None, mark: int) -> Store:
    """Returns the same store with its blobs in the named home, if any; `mark` is the mark of the home it has, if any.
    Raises `StoreRefused` if the named home is not the store's, or belongs to another store."""
    if home is None:
        return with_home(store, UntoldHome(store.url)) if mark else store
    await home.open(mark or await store.mark("folder", await home.own(store.url)))
    return with_home(store, home)


def with_home(store: Store, home: BlobHome) -> Store:
    return _HousedStore(store, home)


class _Lent:
    """A lent transaction whose turn may bring blobs."""

    def __init__(self, inner: OpenTransaction, moved: Callable[[Commit], Awaitable[Commit]]) -> None:
        self._inner = inner
        self._moved = moved
        self.roll_back = inner.roll_back
        self.give_up = inner.give_up
        self.interrupt = inner.interrupt
        self.session = inner.session
        self.finish = inner.finish

    @property
    def connection(self) -> Any:
        """See `ports.transactions`."""
        return self._inner.connection

    @property
    def is_open(self) -> bool:
        """See `ports.transactions`."""
        return self._inner.is_open

    async def commit(self, turn: Commit | None = None) -> Settlement:
        """See `ports.transactions`."""
        if turn is not None and turn.blobs:
            turn = await self._moved(turn)
        return await self._inner.commit(turn)


class _HousedStore:
    """A `ports.store.Store` made of another one and a home for its blobs."""

    def __init__(self, inner: Store, home: BlobHome) -> None:
        self._inner = inner
        self._home = home
        self._take_verbs_of(inner)
        if isinstance(inner, Diagnosable):
            self._examined = inner
            self.condition = self._condition
            self.backlog = inner.backlog
        if isinstance(inner, FindsDamage):
            self.damaged = inner.damaged

    def _take_verbs_of(self, inner: Store) -> None:
        """Binds verbs that have nothing to do with blobs directly, so that calling them costs no extra call."""
        self.read, self.history, self.snapshots = inner.read, inner.history, inner.snapshots
        self.drop_snapshots, self.compact = inner.drop_snapshots, inner.compact
        self.read_tree, self.last_seq, self.trees = inner.read_tree, inner.last_seq, inner.trees
        self.get, self.list, self.count = inner.get, inner.list, inner.count
        self.exposed, self.exposures = inner.exposed, inner.exposures
        self.tally, self.spread = inner.tally, inner.spread
        self.final_seq, self.news = inner.final_seq, inner.news
        self.replace, self.watchers, self.unread = inner.replace, inner.watchers, inner.unread
        self.sent, self.sent_within, self.published = inner.sent, inner.sent_within, inner.published
        self.question, self.refuse = inner.question, inner.refuse
        self.heart, self.claim, self.due, self.acquit = inner.heart, inner.claim, inner.due, inner.acquit
        self.reinstate, self.lease, self.held, self.take = inner.reinstate, inner.lease, inner.held, inner.take
        self.release, self.release_all, self.workers = inner.release, inner.release_all, inner.workers
        self.blob_kind, self.known_blobs, self.mark = inner.blob_kind, inner.known_blobs, inner.mark
        self.blob_references = inner.blob_references
        self.take_duty, self.drop_duty = inner.take_duty, inner.drop_duty
        self.expired, self.remove, self.held_only_by = inner.expired, inner.remove, inner.held_only_by
        self.contents, self.space = inner.contents, inner.space
        self.schedule, self.schedules, self.due_schedules = inner.schedule, inner.schedules, inner.due_schedules
        self.queue, self.queues = inner.queue, inner.queues
        self.change_queue, self.queue_load = inner.change_queue, inner.queue_load
        self.limit, self.limits, self.put_limit = inner.limit, inner.limits, inner.put_limit
        self.move_places, self.tend_limits = inner.move_places, inner.tend_limits
        self.lines, self.busiest, self.places_of = inner.lines, inner.busiest, inner.places_of
        self.append, self.read_parts = inner.append, inner.read_parts
        self.stream_ends, self.streams_of = inner.stream_ends, inner.streams_of
        self.subscribe, self.changes = inner.subscribe, inner.changes

    @property
    def url(self) -> str:
        """See `ports.store`."""
        return self._inner.url

    @property
    def clock(self) -> Clock:
        """See `ports.store`."""
        return self._inner.clock

    @property
    def is_exclusive(self) -> bool:
        """See `ports.transactions`."""
        return self._inner.is_exclusive

    async def close(self) -> None:
        """See `ports.store`."""
        await self._inner.close()
        await self._home.close()

    async def register(self, worker: WorkerRow, ttl: timedelta, *, takes_over: TakeOver) -> Sequence[str]:
        """See `ports.leases`. Checks first that this worker can reach the home."""
        await self._home.check()
        return await self._inner.register(worker, ttl, takes_over=takes_over)

    async def _condition(self) -> Condition:
        """See `ports.condition`. Adds the warnings of the home."""
        found = await self._examined.condition()
        return msgspec.structs.replace(found, warnings=(*found.warnings, *await self._home.warnings()))

    # -- what brings blobs ---------------------------------------------------------------------------------------------

    async def commit(self, batch: Sequence[Commit]) -> Sequence[Answer]:
        """See `ports.journal`."""
        if any(commit.blobs for commit in batch):
            batch = [await self._moved(commit) for commit in batch]
        return await self._inner.commit(batch)

    def commit_now(self, commit: Commit) -> Verdict | None:
        """See `ports.journal`. A turn with blobs is never committed at once."""
        return None if commit.blobs else self._inner.commit_now(commit)

    async def create(
        self,
        new: NewRun,
        *,
        key_since: datetime,
        instance: str = "",
        worker: str = "",
        first: Commit | None = None,
    ) -> Creation:
        """See `ports.runs`."""
        if new.blobs:
            new = msgspec.structs.replace(new, blobs=await self._stubs(new.blobs))
        if first is not None and first.blobs:
            first = await self._moved(first)
        return await self._inner.create(new, key_since=key_since, instance=instance, worker=worker, first=first)

    async def create_within(self, connection: object, new: NewRun, *, key_since: datetime) -> Creation:
        """See `ports.transactions`. If the caller rolls back, nothing refers to the bytes, and they are collected."""
        if new.blobs:
            new = msgspec.structs.replace(new, blobs=await self._stubs(new.blobs))
        return await self._inner.create_within(connection, new, key_since=key_since)

    async def send_within(self, connection: object, message: Message) -> Delivery:
        """See `ports.transactions`."""
        if message.blobs:
            message = msgspec.structs.replace(message, blobs=await self._stubs(message.blobs))
        return await self._inner.send_within(connection, message)

    def wake(self) -> None:
        """See `ports.transactions`."""
        self._inner.wake()

    async def transact(self, *, is_async: bool) -> OpenTransaction:
        """See `ports.transactions`."""
        return _Lent(await self._inner.transact(is_async=is_async), self._moved)

    async def send(self, message: Message) -> Delivery:
        """See `ports.inbox`."""
        if message.blobs:
            message = msgspec.structs.replace(message, blobs=await self._stubs(message.blobs))
        return await self._inner.send(message)

    async def publish(self, publication: Publication) -> Sequence[str]:
        """See `ports.inbox`."""
        if publication.blobs:
            publication = msgspec.structs.replace(publication, blobs=await self._stubs(publication.blobs))
        return await self._inner.publish(publication)

    async def move_schedule(self, move: Move) -> Moving:
        """See `ports.schedules`."""
        runs = [
            msgspec.structs.replace(new, blobs=await self._stubs(new.blobs)) if new.blobs else new for new in move.runs
        ]
        return await self._inner.move_schedule(msgspec.structs.replace(move, runs=tuple(runs)))

    async def put_snapshot(
        self, run: int, snapshot: Snapshot, blobs: Mapping[str, BlobData], references: Sequence[str]
    ) -> bool:
        """See `ports.journal`."""
        return await self._inner.put_snapshot(run, snapshot, dict(await self._stubs(blobs.items())), references)

    async def rewrite(self, rewritten: Rewritten) -> bool:
        """See `ports.upkeep`."""
        blobs = dict(await self._stubs(rewritten.blobs.items()))
        segments = dict(await self._stubs(rewritten.segments.items()))
        return await self._inner.rewrite(msgspec.structs.replace(rewritten, blobs=blobs, segments=segments))

    async def put_blob(self, data: BlobData, *, kind: BlobKind = "payload") -> str:
        """See `ports.blobs`."""
        if not isinstance(data, Stub):
            name = (await asyncio.to_thread(sha256, data)).hexdigest()
            [(_, data)] = await self._stubs([(name, data)])
        return await self._inner.put_blob(data, kind=kind)

    async def _moved(self, commit: Commit) -> Commit:
        """The same turn, with its bytes moved into the home."""
        blobs = dict(await self._stubs(commit.blobs.items()))
        if commit.children:
            children = [
                msgspec.structs.replace(child, blobs=await self._stubs(child.blobs)) if child.blobs else child
                for child in commit.children
            ]
            return msgspec.structs.replace(commit, blobs=blobs, children=tuple(children))
        return msgspec.structs.replace(commit, blobs=blobs)

    async def _stubs(self, blobs: Iterable[tuple[str, BlobData]]) -> tuple[tuple[str, BlobData], ...]:
        """Puts the bytes into the home and returns the stubs that the store keeps."""
        given = list(blobs)
        brought = [(name, data) for name, data in given if not isinstance(data, Stub)]
        if not brought:
            return tuple(given)
        await self._home.put(brought, self._inner.clock.now())
        return await asyncio.to_thread(_stubs_of, given)

    # -- reading and removing ------------------------------------------------------------------------------------------

    async def get_blob(self, name: str) -> bytes:
        """See `ports.blobs`."""
        return (await self.get_blobs([name]))[name]

    async def get_blobs(self, names: Iterable[str]) -> Mapping[str, bytes]:
        """See `ports.blobs`."""
        wanted = dict.fromkeys(names)
        if not wanted:
            return {}
        found = await self._home.get(wanted)
        missing = [name for name in wanted if name not in found]
        if missing:  # stored before there was a home
            return {**found, **await self._inner.get_blobs(missing)}
        return found

    async def collect(self, grace: timedelta, *, limit: int = 1000, is_dry: bool = False) -> Collected:
        """See `ports.upkeep`. The store decides, then the bytes are removed; young ones are left to `collect_files`."""
        if is_dry:
            return await self._inner.collect(grace, limit=limit, is_dry=True)
        await self._home.check()
        collected = await self._inner.collect(grace, limit=limit)
        await self._home.remove(collected.names, self._before(grace))
        return collected

    async def collect_files(self, grace: timedelta, *, after: str = "", limit: int = 1000) -> str:
        """See `ports.upkeep`. Removes bytes that the store does not know, and what crashes left beside them."""
        await self._home.check()
        before = self._before(grace)
        found = await self._home.old(after, before, limit)
        for first in range(0, len(found.names), limit):
            some = found.names[first : first + limit]
            known = await self._inner.known_blobs(some)
            await self._home.remove([name for name in some if name not in known], before)
        return found.next

    def _before(self, grace: timedelta) -> datetime:
        """The time before which bytes are old enough to be collected."""
        return self._inner.clock.now() - max(grace, UNHEARD)


def _stubs_of(blobs: Sequence[tuple[str, BlobData]]) -> tuple[tuple[str, BlobData], ...]:
    return tuple((name, data if isinstance(data, Stub) else _stub(name, data)) for name, data in blobs)


def _stub(name: str, data: bytes) -> Stub:
    return Stub(name, len(data), referred_by(data), isinstance(data, DefinitionBytes))
