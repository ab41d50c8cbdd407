"""What is in the bucket, followed as it changes; and the runs that became orphans.

A consumer first sends every key as it is, then each change. Messages are numbered: one that is missing, or a silence
longer than the server's own beat, ends the consumer, and a new one begins with every key. So no history is needed.

If the bucket leaves no markers for expired keys, nothing is sent for them; then a listing of the heartbeats finds them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from concurrent.futures import Future
from contextlib import aclosing, suppress
from functools import partial
from typing import Any, Final

from holdfast.adapters.leases.orphans import Orphans
from holdfast.adapters.nats.bucket import Bucket, Entry
from holdfast.adapters.nats.keys import Keys, held_in
from holdfast.adapters.nats.link import Lost, headers_of
from holdfast.adapters.nats.loop import LoopThread
from holdfast.errors import StoreUnavailable

SILENCE: Final = 4.0
"""Seconds without a message after which a consumer is given up. It beats every second."""

FORGET_AFTER: Final = 60.0
"""Seconds after which the key of an orphan that no worker took over is removed."""

REMEMBERED: Final = 10_000


class View:
    """The bucket as last heard: live heartbeats, the runs they hold, and the runs that any worker may take."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._live: set[str] = set()
        """Live incarnations."""
        self._held: dict[str, tuple[str, int]] = {}
        """The incarnation and revision of each held run."""
        self._free: dict[str, int] = {}
        """The revision of each run whose key is a marker, or was left behind by an incarnation that is gone."""
        self._left: dict[str, float] = {}
        """The runs among them that were left behind, and when."""
        self._before: set[str] = set()
        """Runs that were held when every key was last heard."""

    def revision_of(self, run: str) -> int:
        """The revision to take the run's key on; 0 if no key was heard of."""
        return self._free.get(run, 0)

    def note_free(self, run: str, revision: int) -> None:
        """Records that we released the run, leaving a marker of that revision; the watch may not have heard of it
        yet."""
        self._free[run] = revision
        if len(self._free) > REMEMBERED:
            del self._free[next(iter(self._free))]

    def left_behind(self, before: float) -> list[tuple[str, int]]:
        """Runs that were left behind before that time, with the revisions of their keys."""
        return [(run, self._free[run]) for run, at in self._left.items() if at < before and run in self._free]

    def forget(self, run: str) -> None:
        """Forgets the run's key: it was removed, or names another incarnation now."""
        self._left.pop(run, None)
        self._free.pop(run, None)

    def begin(self) -> None:
        """Starts hearing every key again. A restart in the middle does no harm."""
        self._before |= set(self._held)
        self._live.clear()
        self._held.clear()
        self._free.clear()

    def complete(self) -> list[str]:
        """Called when every key was heard. Returns the runs that became orphans unseen, and those that were left
        behind."""
        stale = [run for run, (incarnation, _) in self._held.items() if incarnation not in self._live]
        for run in stale:
            self._leave(run)
        found = {*(self._before - set(self._held)), *stale}
        self._before.clear()
        return sorted(found)

    def hear(self, entry: Entry) -> list[str]:
        """Returns the runs that one change makes orphans."""
        run = self._keys.run_of(entry.key)
        if run is not None:
            return self._hear_run(run, entry)
        beat = self._keys.incarnation_of(entry.key)
        if beat is None:
            return []
        if entry.is_marker:
            return self.end(beat[1])
        self._live.add(beat[1])
        return []

    def _hear_run(self, run: str, entry: Entry) -> list[str]:
        if not entry.is_marker:
            self.forget(run)
            self._held[run] = (held_in(entry.key, entry.value).incarnation, entry.revision)
            return []
        self._left.pop(run, None)
        self.note_free(run, entry.revision)
        return [run] if self._held.pop(run, None) is not None else []

    def end(self, incarnation: str) -> list[str]:
        """Ends an incarnation whose heartbeat is gone, and returns its runs: they are orphans."""
        self._live.discard(incarnation)
        runs = [run for run, (holder, _) in self._held.items() if holder == incarnation]
        for run in runs:
            self._leave(run)
        return runs

    def _leave(self, run: str) -> None:
        _, revision = self._held.pop(run)
        self._free[run] = revision
        self._left[run] = time.monotonic()

    def missing(self, present: set[str]) -> list[str]:
        """Incarnations that are not in that listing."""
        return sorted(self._live - present)


class Watch:
    """One stream of orphans, fed by the adapter's thread."""

    def __init__(self, bucket: Bucket, keys: Keys, view: View, thread: LoopThread, poll: float) -> None:
        self._bucket = bucket
        self._keys = keys
        self._view = view
        self._thread = thread
        self._poll = poll
        self._polled = 0.0
        self._running: Future[None] | None = None
        self._orphans = Orphans("NATS", self._begin, self._end)

    def runs(self) -> AsyncIterator[str]:
        """Yields orphans until no server can be reached, then raises `StoreUnavailable`."""
        return self._orphans.runs()

    def _begin(self) -> None:
        self._running = self._thread.submit(self._run())

    def _end(self) -> None:
        if self._running is not None:
            self._running.cancel()

    # -- in the thread -------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while True:
                await self._bucket.look(self._keys.workers)  # or `StoreUnavailable`
                with suppress(Lost):
                    await self._follow()
                await self._bucket.connection.turn_away()
                await asyncio.sleep(0.05)
        except Exception as error:  # noqa: BLE001 - told to the listener
            self._orphans.fail(error)

    async def _follow(self) -> None:
        """Reads the consumer until it ends for any reason, then raises `Lost`."""
        self._view.begin()
        is_listing = True
        async with aclosing(follow(self._bucket, self._keys.all)) as stream:
            async for entry in stream:
                if entry is not None:
                    found = self._view.hear(entry)
                    if not is_listing:
                        self._orphans.tell(*found)
                elif is_listing:
                    is_listing = False
                    self._orphans.tell(*self._view.complete())
                else:
                    await self._look_around()

    async def _look_around(self) -> None:
        """Looks from time to time for heartbeats that expired without a marker, and for keys that were left behind for
        good."""
        now = time.monotonic()
        if now - self._polled < (self._poll if self._bucket.has_markers else self._poll / 3):
            return
        self._polled = now
        keys = await self._bucket.live_keys(self._keys.workers)
        present = {beat[1] for key in keys if (beat := self._keys.incarnation_of(key)) is not None}
        for incarnation in self._view.missing(present):
            self._orphans.tell(*self._view.end(incarnation))
        for run, revision in self._view.left_behind(now - FORGET_AFTER):
            await self._bucket.remove(self._keys.run(run), last=revision)
            self._view.forget(run)


async def follow(bucket: Bucket, keys: str) -> AsyncGenerator[Entry | None]:
    """Yields every matching key, then None, then each change, and None at least every second. Raises `Lost` when the
    consumer ends."""
    link = await bucket.connection.link(bucket.connection.patience)
    messages: asyncio.Queue[Any] = asyncio.Queue()
    lose = partial(messages.put_nowait, None)
    link.when_lost.append(lose)
    subscription = await link.subscribe(messages.put)
    try:
        pending = await bucket.consume(keys, subscription.subject)
        if not pending:
            yield None
        number = 0
        while True:
            message = await _next(messages)
            headers = headers_of(message)
            if status := headers.get("Status"):
                if status != "100" or int(headers.get("Nats-Last-Consumer", number)) != number:
                    raise Lost(f"the consumer ended: {status}")
                yield None
                continue
            number += 1
            if message.metadata.sequence.consumer != number:
                raise Lost("a message is missing")
            yield bucket.entry_in(message)
            if number == pending:
                yield None
    finally:
        link.when_lost.remove(lose)
        with suppress(Exception):
            await subscription.unsubscribe()


async def _next(messages: asyncio.Queue[Any]) -> Any:
    try:
        async with asyncio.timeout(SILENCE):
            message = await messages.get()
    except TimeoutError as error:
        raise Lost("the consumer is silent") from error
    if message is None:
        raise Lost("the connection ended")
    return message


async def listed(bucket: Bucket, keys: str) -> list[Entry]:
    """Every matching key as it is, without markers. Raises `StoreUnavailable` if they cannot be read."""
    found: list[Entry] = []
    if await bucket.look(keys) is None:
        return found
    try:
        async with aclosing(follow(bucket, keys)) as stream:
            async for entry in stream:
                if entry is None:
                    break
                if not entry.is_marker:
                    found.append(entry)
    except Lost as error:
        raise StoreUnavailable(f"NATS: {error}") from error
    return found
