"""The heartbeats of workers: a key with a time to live for each incarnation.

An incarnation lasts as long as its key is renewed in time. One that expired never comes back: a late heartbeat starts a
new one, and any worker may take runs whose keys name the old one.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from uuid import uuid4

import msgspec

from holdfast.adapters.leases.values import Heard, is_fresh, left_of, whole_seconds
from holdfast.adapters.nats.bucket import Bucket
from holdfast.adapters.nats.keys import Keys
from holdfast.errors import StoreUnavailable

TRIES: Final = 5


@dataclass(slots=True)
class Incarnation:
    """A worker's life from its first heartbeat to the first one that came too late."""

    worker: str
    name: str
    seconds: int
    seen_at: datetime | None = None
    revision: int = 0
    renewed: float = 0.0
    """Monotonic time of the last renewal."""
    held: dict[str, int] = field(default_factory=dict[str, int])
    """Its runs, with the revisions of their keys."""

    def left(self) -> timedelta:
        return left_of(self.renewed, self.seconds)


class Incarnations:
    """The incarnations of this process's workers: usually one."""

    def __init__(self, bucket: Bucket, keys: Keys) -> None:
        self._bucket = bucket
        self._keys = keys
        self._known: dict[str, Incarnation] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def of(self, worker: str, ttl: timedelta, *, heard_at: datetime | None = None) -> Incarnation:
        """The worker's incarnation, made or renewed if necessary. Right after a heartbeat it is always renewed."""
        seconds = whole_seconds(ttl)
        async with self._locks.setdefault(worker, asyncio.Lock()):
            for _ in range(TRIES):
                found = self._known.get(worker)
                if found is None:
                    found = Incarnation(worker, uuid4().hex, seconds, seen_at=heard_at)
                elif heard_at is None and is_fresh(found.renewed, found.seconds):
                    return found
                if await self._renew(found, seconds, heard_at):
                    self._known[worker] = found
                    return found
                self._known.pop(worker, None)
        raise StoreUnavailable("NATS removes the heartbeat of this worker as soon as it is written")

    async def _renew(self, found: Incarnation, seconds: int, heard_at: datetime | None) -> bool:
        key = self._keys.heartbeat(found.worker, found.name)
        seen_at = heard_at or found.seen_at
        value = msgspec.json.encode(Heard(seen_at, float(seconds)))
        for _ in range(TRIES):
            began = time.monotonic()
            revision = await self._bucket.put(key, value, last=found.revision, ttl=seconds)
            if revision:
                found.revision, found.renewed, found.seconds, found.seen_at = revision, began, seconds, seen_at
                return True
            entry = await self._bucket.get(key)
            if entry is None or entry.is_marker:
                return False
            found.revision = entry.revision  # written by us: its answer was lost
        return False

    def known(self, worker: str) -> Incarnation | None:
        """The worker's incarnation, or None."""
        return self._known.get(worker)

    async def end(self, worker: str) -> Incarnation | None:
        """Removes the heartbeat: from here on any worker may take its runs."""
        async with self._locks.setdefault(worker, asyncio.Lock()):
            found = self._known.pop(worker, None)
            if found is not None:
                await self._bucket.remove(self._keys.heartbeat(worker, found.name))
            return found
