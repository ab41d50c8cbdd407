"""Grants by NATS: a key per run that names the incarnation of the worker that holds it.

Acquiring is a compare-and-set on the key's revision, so exactly one of any number of callers gets it. A lost answer
does no harm: a key that names our incarnation is ours. One that names an earlier incarnation of this worker, or one
whose heartbeat is gone, is taken over, again by compare-and-set.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from holdfast.adapters.leases.endpoints import Endpoints, patience_for
from holdfast.adapters.leases.known_workers import standing_of
from holdfast.adapters.leases.owner import check_owner, mark_text
from holdfast.adapters.nats.bucket import Bucket, Cluster
from holdfast.adapters.nats.connection import Connection
from holdfast.adapters.nats.incarnation import Incarnation, Incarnations
from holdfast.adapters.nats.keys import HeldRun, Keys, heard_in, held_in
from holdfast.adapters.nats.loop import LoopThread
from holdfast.adapters.nats.watch import View, Watch, listed
from holdfast.adapters.system.clock import SystemClock
from holdfast.errors import StoreUnavailable
from holdfast.ports.clock import Clock
from holdfast.ports.grants import (
    Acquiring,
    Grant,
    GrantsCondition,
    Member,
    NotOwner,
    OwnedBy,
    Released,
    Releasing,
    Standing,
)

TRIES: Final = 10
"""Maximum number of tries when a key changes between reading and writing it."""


class NatsGrants:
    """A `ports.grants.Grants` by NATS."""

    def __init__(
        self,
        endpoints: Endpoints,
        *,
        bucket: str = "holdfast",
        replicas: int = 1,
        prefix: str = "holdfast",
        ttl: timedelta,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._prefix = prefix
        self._keys = Keys(prefix)
        self._ttl = ttl
        patience = patience_for(ttl.total_seconds())
        self._connection = Connection(endpoints, patience=patience)
        self._watched = self._connection.twin()
        self._bucket = Bucket(self._connection, bucket, replicas)
        self._watched_bucket = Bucket(self._watched, bucket, replicas)
        self._incarnations = Incarnations(self._bucket, self._keys)
        self._view = View(self._keys)
        self._thread = LoopThread("holdfast-nats")

    async def open(self, mark: int | None = None) -> None:
        """Raises `StoreRefused` if the cluster cannot be used, other software uses the bucket, or a store with another
        `mark` uses the prefix."""
        await self._thread.run(self._open(mark))

    async def _open(self, mark: int | None) -> None:
        await self._bucket.check()
        await self._check_owner(mark)

    async def _check_owner(self, mark: int | None) -> None:
        found = await self._bucket.get(self._keys.store)
        check_owner("NATS", self._prefix, None if found is None or found.is_marker else found.value, mark)

    async def own(self, mark: int) -> None:
        """Claims the prefix for the store with that mark. Raises `StoreRefused` if it belongs to another."""
        await self._thread.run(self._own(mark))

    async def _own(self, mark: int) -> None:
        await self._bucket.make()
        await self._bucket.put(self._keys.store, mark_text(mark), last=0)
        await self._check_owner(mark)

    async def close(self) -> None:
        """See `ports.grants`."""
        await asyncio.get_running_loop().run_in_executor(None, self._close)

    def _close(self) -> None:
        try:
            for connection in (self._connection, self._watched):
                self._thread.submit(connection.close()).result()
        except StoreUnavailable:  # closed before
            return
        self._thread.close()

    # -- acquiring -----------------------------------------------------------------------------------------------------

    async def acquire(self, run: str, worker: str, ttl: timedelta) -> Acquiring:
        """See `ports.grants`."""
        return (await self.acquire_many([run], worker, ttl))[run]

    async def acquire_many(self, runs: Sequence[str], worker: str, ttl: timedelta) -> Mapping[str, Acquiring]:
        """See `ports.grants`. All runs are asked for at the same time."""
        return await self._thread.run(self._acquire_many(runs, worker, ttl)) if runs else {}

    async def _acquire_many(self, runs: Sequence[str], worker: str, ttl: timedelta) -> dict[str, Acquiring]:
        mine = await self._incarnations.of(worker, ttl)
        hearts: dict[str, asyncio.Task[datetime | None]] = {}
        answers = await asyncio.gather(*(self._acquire(run, mine, hearts) for run in runs))
        return dict(zip(runs, answers, strict=True))

    async def _acquire(
        self, run: str, mine: Incarnation, hearts: dict[str, asyncio.Task[datetime | None]]
    ) -> Acquiring:
        key = self._keys.run(run)
        acquired_at = self._clock.now()
        last = mine.held.get(run) or self._view.revision_of(run)
        if run in mine.held and (entry := await self._bucket.get(key)) is not None and entry.revision == last:
            return self._granted(run, mine, last, held_in(key, entry.value).acquired_at)
        for _ in range(TRIES):
            value = msgspec.json.encode(HeldRun(mine.worker, mine.name, acquired_at))
            if revision := await self._bucket.put(key, value, last=last):
                return self._granted(run, mine, revision, acquired_at)
            entry = await self._bucket.get(key)
            last = 0 if entry is None else entry.revision
            if entry is None or entry.is_marker:
                continue
            held = held_in(key, entry.value)
            if held.worker == mine.worker:
                if held.incarnation == mine.name:
                    return self._granted(run, mine, last, held.acquired_at)
                acquired_at = held.acquired_at
                continue
            if held.incarnation not in hearts:
                hearts[held.incarnation] = asyncio.create_task(self._expiry(held))
            expires_at = await hearts[held.incarnation]
            if expires_at is not None:
                return OwnedBy(held.worker, expires_at)
        raise StoreUnavailable(f"NATS: the key of run {run} kept changing while it was being written. Try again")

    def _granted(self, run: str, mine: Incarnation, revision: int, acquired_at: datetime) -> Grant:
        mine.held[run] = revision
        return Grant(run, mine.worker, acquired_at, self._clock.now() + mine.left())

    async def _expiry(self, held: HeldRun) -> datetime | None:
        """When the heartbeat that a run's key names expires, by our clock; None if it is gone."""
        key = self._keys.heartbeat(held.worker, held.incarnation)
        entry = await self._bucket.get(key)
        if entry is None or entry.is_marker or entry.at is None:
            return None
        left = entry.at + timedelta(seconds=heard_in(key, entry.value).ttl) - self._bucket.now()
        return self._clock.now() + max(left, timedelta())

    def heartbeat(self, worker: str, ttl: timedelta) -> None:
        """See `ports.grants`."""
        self._thread.submit(self._incarnations.of(worker, ttl, heard_at=self._clock.now())).result()

    # -- releasing -----------------------------------------------------------------------------------------------------

    async def release(self, run: str, worker: str) -> Releasing:
        """See `ports.grants`."""
        return await self._thread.run(self._release(run, worker))

    async def _release(self, run: str, worker: str) -> Releasing:
        key = self._keys.run(run)
        mine = self._incarnations.known(worker)
        last = mine.held.pop(run, 0) if mine is not None else 0
        for _ in range(TRIES):
            if last and (revision := await self._bucket.remove(key, last=last)):
                self._view.note_free(run, revision)
                return Released()
            entry = await self._bucket.get(key)
            if entry is None or entry.is_marker:
                return Released()
            held = held_in(key, entry.value)
            if held.worker != worker:
                return Released() if await self._expiry(held) is None else NotOwner(held.worker)
            last = entry.revision
        raise StoreUnavailable(f"NATS: the key of run {run} kept changing while it was being written. Try again")

    async def release_all(self, worker: str) -> Sequence[str]:
        """See `ports.grants`. Removes the heartbeat; run keys that name it mean nothing from then on."""
        return await self._thread.run(self._release_all(worker))

    async def _release_all(self, worker: str) -> list[str]:
        ended = await self._incarnations.end(worker)
        if ended is None:
            return []
        removals = [self._bucket.remove(self._keys.run(run), last=last) for run, last in ended.held.items()]
        done = await asyncio.gather(*removals, return_exceptions=True)  # a key that stays is free too
        return [run for run, revision in zip(ended.held, done, strict=True) if revision != 0]

    # -- looking -------------------------------------------------------------------------------------------------------

    async def get(self, run: str) -> Grant | None:
        """See `ports.grants`."""
        return await self._thread.run(self._get(run))

    async def _get(self, run: str) -> Grant | None:
        entry = await self._bucket.get(self._keys.run(run))
        if entry is None or entry.is_marker:
            return None
        held = held_in(entry.key, entry.value)
        expires_at = await self._expiry(held)
        return None if expires_at is None else Grant(run, held.worker, held.acquired_at, expires_at)

    async def workers(self) -> Sequence[Standing]:
        """See `ports.grants`. A worker whose heartbeat is gone holds nothing."""
        heard, held = await self._thread.run(self._read_all())
        return standing_of(heard, held)

    async def holders(self) -> Mapping[str, str]:
        """See `ports.grants`."""
        return (await self._thread.run(self._read_all()))[1]

    async def _read_all(self) -> tuple[dict[str, datetime | None], dict[str, str]]:
        heard: dict[str, datetime | None] = {}
        live: set[str] = set()
        runs: dict[str, HeldRun] = {}
        for entry in await listed(self._bucket, self._keys.all):
            if (run := self._keys.run_of(entry.key)) is not None:
                runs[run] = held_in(entry.key, entry.value)
            elif (beat := self._keys.incarnation_of(entry.key)) is not None:
                worker, incarnation = beat
                live.add(incarnation)
                seen_at = heard_in(entry.key, entry.value).seen_at
                heard[worker] = max(filter(None, (heard.get(worker), seen_at)), default=None)
        return heard, {run: held.worker for run, held in runs.items() if held.incarnation in live}

    def orphans(self) -> AsyncIterator[str]:
        """See `ports.grants`."""
        poll = self._ttl.total_seconds()
        return Watch(self._watched_bucket, self._keys, self._view, self._thread, poll).runs()

    async def condition(self) -> GrantsCondition:
        """See `ports.grants`."""
        return await self._thread.run(self._condition())

    async def _condition(self) -> GrantsCondition:
        try:
            found = await self._bucket.look(self._keys.store)
            cluster, problem = Cluster() if found is None else found.cluster, "" if found else "it has no such bucket"
        except StoreUnavailable:
            cluster, problem = Cluster(), "JetStream does not answer: the bucket has no leader"
        numbers = range(len(self._connection.addresses))
        return GrantsCondition(
            "NATS", tuple(await asyncio.gather(*(self._member(number, cluster, problem) for number in numbers)))
        )

    async def _member(self, number: int, cluster: Cluster, problem: str) -> Member:
        address = self._connection.addresses[number]
        try:
            link = await self._connection.greeting(number)
        except StoreUnavailable as error:
            return Member(address, "", str(error))
        server = link.server
        await link.close()
        name = server.get("server_name", "")
        role = "not a replica"
        if name == cluster.leader:
            role = "leader"
        for replica in cluster.replicas:
            if replica.name == name:
                role = "follower" if replica.current else "follower that is behind"
        return Member(address, f"NATS {server.get('version', '')}, {role}", problem)
