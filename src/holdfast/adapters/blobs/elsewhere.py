"""A store whose blobs are in a folder: the bytes are durable there before the store hears of them.

The store keeps a stub of each (name, size, age, references), so what refers to a blob, and when it may go, is decided
in the store's own transactions. Whatever has no blobs is handed on as it is.

The store knows its folder by a mark (`Blobs.folder_mark`), from the first process on that names one. A process that
was not told of it does what needs no blobs, and is refused the rest before anything is written: nobody would look for
bytes in the store, and a run whose payloads are in the folder would seem damaged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import msgspec

from holdfast.adapters.blobs.folder import Folder
from holdfast.core.definition import DefinitionBytes
from holdfast.core.references import names_in
from holdfast.core.snapshot import Snapshot
from holdfast.errors import BlobNotFound, StoreRefused, StoreUnavailable
from holdfast.ports.blobs import BlobData, BlobKind, Stub
from holdfast.ports.condition import Backlog, Condition, Diagnosable
from holdfast.ports.inbox import Delivery, Message, Publication
from holdfast.ports.journal import Commit, Verdict
from holdfast.ports.leases import TakeOver, WorkerRow
from holdfast.ports.runs import Creation, NewRun
from holdfast.ports.store import Store
from holdfast.ports.transactions import OpenTransaction, Settlement
from holdfast.ports.upkeep import Collected

UNHEARD = timedelta(hours=1)
"""Bytes are in the folder before the store hears of them: so long their files stay, however short the grace."""


async def with_blobs_in(store: Store, folder: Folder | None, mark: int) -> Store:
    """The same store, its blobs in the folder that is named, if any; `mark` is that of the folder it has, if any.

    `StoreRefused` if the one that is named is not the store's, or is another store's.
    """
    if folder is None:
        return with_folder(store, _Unnamed(store.url)) if mark else store
    folder.mark = mark or await store.folder_mark(await asyncio.to_thread(folder.label, store.url))
    try:
        await asyncio.to_thread(folder.check)
    except StoreUnavailable as error:
        raise StoreRefused(f"cannot open the store {store.url}: {error}") from error
    await asyncio.to_thread(folder.prepare)
    return with_folder(store, folder)


def with_folder(store: Store, folder: Folder) -> Store:
    """The same store, its blobs in the folder."""
    return cast("Store", _Elsewhere(store, folder))


class _Unnamed(Folder):
    """The folder of a store, in a process that was not told of it."""

    def __init__(self, url: str) -> None:
        super().__init__(Path())
        self._url = url

    def check(self) -> None:
        """Refused."""
        raise StoreRefused(
            f"{self._url} keeps its blobs (large payloads) in a folder, and this process was not told of it. Name the "
            'folder as the other processes do: App(blobs="file:///…"), [store] blobs in holdfast.toml, '
            "HOLDFAST_STORE_BLOBS; or name the app to the command: MODULE:APP."
        )

    def get(self, name: str) -> bytes:
        """Refused too: whether it is there, nobody here can say."""
        self.check()
        return super().get(name)


class _Lent:
    """A lent transaction whose turn may bring blobs."""

    def __init__(self, inner: OpenTransaction, moved: Callable[[Commit], Awaitable[Commit]]) -> None:
        self._inner = inner
        self._moved = moved

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def commit(self, turn: Commit | None = None) -> Settlement:
        """See `ports.transactions`."""
        if turn is not None and turn.blobs:
            turn = await self._moved(turn)
        return await self._inner.commit(turn)


class _Elsewhere:
    def __init__(self, inner: Store, folder: Folder) -> None:
        self._inner = inner
        self._folder = folder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def register(self, worker: WorkerRow, ttl: timedelta, *, takes_over: TakeOver) -> Sequence[str]:
        """See `ports.leases`: a worker has to see the folder."""
        await asyncio.to_thread(self._folder.check)
        return await self._inner.register(worker, ttl, takes_over=takes_over)

    async def condition(self) -> Condition:
        """See `ports.condition`. (Said by name: what `__getattr__` would find does not count for every Python.)"""
        return await cast("Diagnosable", self._inner).condition()

    async def backlog(self) -> Sequence[Backlog]:
        """See `ports.condition`."""
        return await cast("Diagnosable", self._inner).backlog()

    # -- what brings blobs ---------------------------------------------------------------------------------------------

    async def commit(self, batch: Sequence[Commit]) -> Sequence[Verdict]:
        """See `ports.journal`."""
        if any(commit.blobs for commit in batch):
            batch = [await self.moved(commit) for commit in batch]
        return await self._inner.commit(batch)

    def commit_now(self, commit: Commit) -> Verdict | None:
        """See `ports.journal`; a turn with blobs always has to wait."""
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
            first = await self.moved(first)
        return await self._inner.create(new, key_since=key_since, instance=instance, worker=worker, first=first)

    async def create_within(self, connection: object, new: NewRun, *, key_since: datetime) -> Creation:
        """See `ports.transactions`. If the caller rolls back, nobody refers to the bytes, and they are collected."""
        if new.blobs:
            new = msgspec.structs.replace(new, blobs=await self._stubs(new.blobs))
        return await self._inner.create_within(connection, new, key_since=key_since)

    async def transact(self, *, is_async: bool) -> OpenTransaction:
        """See `ports.transactions`."""
        return cast("OpenTransaction", _Lent(await self._inner.transact(is_async=is_async), self.moved))

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

    async def put_snapshot(self, run: int, snapshot: Snapshot, blobs: Mapping[str, BlobData]) -> bool:
        """See `ports.journal`."""
        return await self._inner.put_snapshot(run, snapshot, dict(await self._stubs(blobs.items())))

    async def put_blob(self, data: BlobData, *, kind: BlobKind = "payload") -> str:
        """See `ports.blobs`."""
        if not isinstance(data, Stub):
            name = (await asyncio.to_thread(sha256, data)).hexdigest()
            [(_, data)] = await self._stubs([(name, data)])
        return await self._inner.put_blob(data, kind=kind)

    async def moved(self, commit: Commit) -> Commit:
        """The same turn, its bytes in the folder."""
        blobs = dict(await self._stubs(commit.blobs.items()))
        if commit.children:
            children = [
                msgspec.structs.replace(child, blobs=await self._stubs(child.blobs)) if child.blobs else child
                for child in commit.children
            ]
            return msgspec.structs.replace(commit, blobs=blobs, children=tuple(children))
        return msgspec.structs.replace(commit, blobs=blobs)

    async def _stubs(self, blobs: Iterable[tuple[str, BlobData]]) -> tuple[tuple[str, BlobData], ...]:
        """Puts the bytes into the folder, and returns what the store is to know of them."""
        return await asyncio.to_thread(self._put_all, list(blobs))

    def _put_all(self, blobs: list[tuple[str, BlobData]]) -> tuple[tuple[str, BlobData], ...]:
        stubs: list[tuple[str, BlobData]] = []
        for name, data in blobs:
            if isinstance(data, Stub):
                stubs.append((name, data))
            else:
                self._folder.put(name, data, self._inner.clock.now().timestamp())
                stubs.append((name, Stub(name, len(data), tuple(names_in(data)), isinstance(data, DefinitionBytes))))
        return tuple(stubs)

    # -- reading and removing ------------------------------------------------------------------------------------------

    async def get_blob(self, name: str) -> bytes:
        """See `ports.blobs`."""
        return (await self.get_blobs([name]))[name]

    async def get_blobs(self, names: Iterable[str]) -> Mapping[str, bytes]:
        """See `ports.blobs`."""
        wanted = list(names)
        if not wanted:
            return {}
        found = await asyncio.to_thread(self._found, wanted)
        missing = [name for name in wanted if name not in found]
        if missing:  # stored before there was a folder
            found.update(await self._inner.get_blobs(missing))
        return found

    def _found(self, names: list[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for name in names:
            with suppress(BlobNotFound):
                found[name] = self._folder.get(name)
        return found

    async def collect(self, grace: timedelta, *, limit: int = 1000, is_dry: bool = False) -> Collected:
        """See `ports.upkeep`: decided by the store, then the files; a young one is left to `collect_files`."""
        if is_dry:
            return await self._inner.collect(grace, limit=limit, is_dry=True)
        await asyncio.to_thread(self._folder.check)
        collected = await self._inner.collect(grace, limit=limit)
        await asyncio.to_thread(self._folder.remove, collected.names, self._before(grace))
        return collected

    async def collect_files(self, grace: timedelta, *, after: str = "", limit: int = 1000) -> str:
        """See `ports.upkeep`: files that the store knows nothing of; and what crashes left beside them."""
        await asyncio.to_thread(self._folder.check)
        before = self._before(grace)
        names, following = await asyncio.to_thread(self._old_files, after, before, limit)
        for first in range(0, len(names), limit):
            some = names[first : first + limit]
            known = await self._inner.known_blobs(some)
            await asyncio.to_thread(self._folder.remove, [name for name in some if name not in known], before)
        return following

    def _old_files(self, after: str, before: float, limit: int) -> tuple[list[str], str]:
        """Those of so many parts as hold `limit` of them, and the last of these parts unless it was the last of all."""
        names: list[str] = []
        for part in self._folder.parts(after):
            if len(names) >= limit:
                return names, after
            self._folder.sweep(part)
            names += self._folder.names(part, before)
            after = part
        return names, ""

    def _before(self, grace: timedelta) -> float:
        """Files that are younger stay."""
        return (self._inner.clock.now() - max(grace, UNHEARD)).timestamp()
