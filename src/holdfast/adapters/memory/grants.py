"""Grants in memory: a lease manager apart from any store, for workers of one process and for tests.

A process has a `MemoryGrants`, and a worker is an incarnation in it: a heartbeat keeps the grants of its own
incarnation only. Those of an earlier one are taken over when they are asked for, or expire. Every read checks expiry,
by a clock that cannot be set back. One lock; nothing awaits under it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Lock
from typing import TypeAlias

from holdfast.adapters.system.clock import SystemClock
from holdfast.ports.clock import Clock
from holdfast.ports.grants import Acquiring, Grant, NotOwner, OwnedBy, Released, Releasing, Standing

__all__ = ["MemoryGrants"]


_Incarnation: TypeAlias = tuple[str, int]
"""A worker, and the number of its process."""


@dataclass(slots=True)
class _Held:
    worker: str
    process: int
    acquired_at: datetime
    until: float

    @property
    def incarnation(self) -> _Incarnation:
        return self.worker, self.process


@dataclass(slots=True)
class _Heard:
    until: float
    seen_at: datetime


@dataclass(slots=True)
class _Tables:
    """What all processes see."""

    lock: Lock = field(default_factory=Lock)
    held: dict[str, _Held] = field(default_factory=dict[str, _Held])
    heard: dict[_Incarnation, _Heard] = field(default_factory=dict[_Incarnation, _Heard])
    watchers: list[tuple[asyncio.AbstractEventLoop, asyncio.Queue[str]]] = field(
        default_factory=list[tuple[asyncio.AbstractEventLoop, asyncio.Queue[str]]]
    )
    processes: int = 0


class MemoryGrants:
    """A `ports.grants.Grants` in memory. `of`: a manager whose grants it shares, as another process would."""

    def __init__(self, clock: Clock | None = None, *, of: MemoryGrants | None = None) -> None:
        self._clock: Clock = clock or (SystemClock() if of is None else of._clock)
        self._tables: _Tables = _Tables() if of is None else of._tables
        tables = self._tables
        self._lock = tables.lock
        self._held = tables.held
        self._heard = tables.heard
        self._watchers = tables.watchers
        self._process = tables.processes = tables.processes + 1

    async def acquire(self, run: str, worker: str, ttl: timedelta) -> Acquiring:
        """See `ports.grants`."""
        with self._lock:
            return self._acquire(run, worker, ttl)

    async def acquire_many(self, runs: Sequence[str], worker: str, ttl: timedelta) -> Mapping[str, Acquiring]:
        """See `ports.grants`."""
        with self._lock:
            return {run: self._acquire(run, worker, ttl) for run in runs}

    async def release(self, run: str, worker: str) -> Releasing:
        """See `ports.grants`."""
        with self._lock:
            held = self._current(run)
            if held is not None and held.worker != worker:
                return NotOwner(held.worker)
            if held is not None:
                self._let_go(run)
            return Released()

    async def release_all(self, worker: str) -> Sequence[str]:
        """See `ports.grants`."""
        with self._lock:
            self._sweep()
            us = worker, self._process
            runs = [run for run, held in self._held.items() if held.incarnation == us]
            for run in runs:
                self._let_go(run)
            self._heard.pop(us, None)
            return runs

    def heartbeat(self, worker: str, ttl: timedelta) -> None:
        """See `ports.grants`."""
        with self._lock:
            second, us = self._second(), (worker, self._process)
            heard = self._heard.get(us)
            if heard is None or heard.until <= second:
                self._sweep()  # a late heartbeat brings nothing back
                self._forget_earlier(worker, second)
            self._heard[us] = _Heard(second + ttl.total_seconds(), self._clock.now())

    async def get(self, run: str) -> Grant | None:
        """See `ports.grants`."""
        with self._lock:
            held = self._current(run)
            return None if held is None else Grant(run, held.worker, held.acquired_at, self._expiry(held))

    async def workers(self) -> Sequence[Standing]:
        """See `ports.grants`."""
        with self._lock:
            self._sweep()
            second = self._second()
            active = Counter(held.worker for held in self._held.values())
            latest = {worker: heard for (worker, _), heard in sorted(self._heard.items(), key=lambda x: x[1].until)}
            found: list[Standing] = []
            for worker in sorted({*active, *latest}):
                heard = latest.get(worker)
                is_live = heard is not None and second < heard.until
                found.append(Standing(worker, is_live, active[worker], None if heard is None else heard.seen_at))
            return found

    def orphans(self) -> AsyncIterator[str]:
        """See `ports.grants`. Expired grants are reported at the next read: nothing here waits for time."""
        entry = (asyncio.get_running_loop(), asyncio.Queue[str]())
        with self._lock:
            self._watchers.append(entry)
        return self._told(entry)

    async def close(self) -> None:
        """See `ports.grants`."""

    async def _told(self, entry: tuple[asyncio.AbstractEventLoop, asyncio.Queue[str]]) -> AsyncIterator[str]:
        try:
            while True:
                yield await entry[1].get()
        finally:
            with self._lock:
                self._watchers.remove(entry)

    # -- the lock is held in all of these ------------------------------------------------------------------------------

    def _acquire(self, run: str, worker: str, ttl: timedelta) -> Acquiring:
        held = self._current(run)
        if held is not None and held.worker != worker:
            return OwnedBy(held.worker, self._expiry(held))
        if held is None:
            held = self._held[run] = _Held(worker, self._process, self._clock.now(), 0.0)
        held.process, held.until = self._process, self._second() + ttl.total_seconds()
        return Grant(run, worker, held.acquired_at, self._expiry(held))

    def _second(self) -> float:
        return self._clock.boot()[1]

    def _end(self, held: _Held) -> float:
        heard = self._heard.get(held.incarnation)
        return held.until if heard is None else max(held.until, heard.until)

    def _expiry(self, held: _Held) -> datetime:
        return self._clock.now() + timedelta(seconds=self._end(held) - self._second())

    def _current(self, run: str) -> _Held | None:
        held = self._held.get(run)
        if held is not None and self._end(held) <= self._second():
            self._let_go(run)
            return None
        return held

    def _sweep(self) -> None:
        for run in list(self._held):
            self._current(run)

    def _forget_earlier(self, worker: str, second: float) -> None:
        """Forgets incarnations of the worker that expired."""
        for known in [x for x, heard in self._heard.items() if x[0] == worker and heard.until <= second]:
            del self._heard[known]

    def _let_go(self, run: str) -> None:
        del self._held[run]
        for loop, queue in self._watchers:
            if not loop.is_closed():
                loop.call_soon_threadsafe(queue.put_nowait, run)
