"""The limits of a memory store."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from holdfast.adapters.limits.desk import Desk, Waiter
from holdfast.adapters.limits.places import move_places, promote, tend
from holdfast.adapters.limits.views import line_of, view_of
from holdfast.adapters.memory.access import Access
from holdfast.adapters.memory.tables import LimitTables, Tables
from holdfast.adapters.memory.transaction import Transaction
from holdfast.core.limit import Rule, Setting
from holdfast.core.status import Status
from holdfast.core.turn import instant, micros
from holdfast.ports.limits import BusyLine, Line, PlaceAnswer, PlaceMove, PlaceView, StoredLimit
from holdfast.ports.runs import RunRow

_OPEN = (Status.PENDING, Status.RUNNING)


class MemoryDesk(Desk):
    """The desk of one write."""

    def __init__(self, tables: Tables, write: Transaction) -> None:
        self.now: int = micros(write.now)
        self._limits = tables.limits
        self._tables = tables
        self._write = write

    def is_current(self, no: int, epoch: int) -> bool:
        """See `Desk`."""
        run = self._tables.runs.get(no)
        return run is not None and run.epoch == epoch

    def is_held(self, no: int, epoch: int) -> bool:
        """See `Desk`."""
        run = self._tables.runs.get(no)
        return run is not None and bool(run.instance) and run.epoch == epoch and run.ended_at is None

    def setting(self, name: str) -> Setting | None:
        """See `Desk`."""
        stored = self._limits.rows.get(name)
        return None if stored is None else (stored.rule, stored.is_paused)

    def declare(self, name: str, rule: Rule) -> None:
        """See `Desk`."""
        self._limits.rows.setdefault(name, StoredLimit(name=name, revision=1, rule=rule, body=b"{}"))

    def lock(self, lines: Sequence[tuple[str, str]]) -> None:
        """See `Desk`. The store has one lock."""
        for line in lines:
            self._limits.lines.setdefault(line, (0, 0))

    def line(self, name: str, key: str) -> tuple[int, int]:
        """See `Desk`."""
        return self._limits.lines.get((name, key), (0, 0))

    def put_line(self, name: str, key: str, tat: int, quiet_until: int) -> None:
        """See `Desk`."""
        self._limits.lines[name, key] = tat, quiet_until

    def slots(self, name: str, key: str) -> set[int]:
        """See `Desk`."""
        found: set[int] = set()
        for place, (no, _, epoch) in list(self._limits.places.items()):
            if place[:2] != (name, key):
                continue
            if self.is_held(no, epoch):
                found.add(place[2])
            else:
                del self._limits.places[place]
        return found

    def places(self, no: int, step: str, epoch: int) -> set[tuple[str, str]]:
        """See `Desk`."""
        return {place[:2] for place, holder in self._limits.places.items() if holder == (no, step, epoch)}

    def add_place(self, name: str, key: str, slot: int, no: int, step: str, epoch: int) -> None:
        """See `Desk`."""
        assert (name, key, slot) not in self._limits.places
        self._limits.places[name, key, slot] = no, step, epoch

    def lines_of(self, steps: Collection[tuple[int, str]]) -> set[tuple[str, str]]:
        """See `Desk`."""
        held = {place[:2] for place, holder in self._limits.places.items() if holder[:2] in steps}
        waits = [self._limits.waiters.get(step) for step in steps]
        return held | {(waiter.name, waiter.key) for waiter in waits if waiter is not None}

    def meet(self, runs: Collection[int]) -> None:
        """See `Desk`. All of them are in memory."""

    def drop(self, no: int, step: str) -> None:
        """See `Desk`."""
        for place in [place for place, holder in self._limits.places.items() if holder[:2] == (no, step)]:
            del self._limits.places[place]
        self.drop_waiter(no, step)

    def drop_waiter(self, no: int, step: str) -> None:
        """See `Desk`."""
        self._limits.waiters.pop((no, step), None)

    def waiter(self, no: int, step: str) -> Waiter | None:
        """See `Desk`."""
        return self._limits.waiters.get((no, step))

    def put_waiter(self, waiter: Waiter) -> None:
        """See `Desk`."""
        known = self.waiter(waiter.no, waiter.step)
        self._limits.last += 1
        seq = self._limits.last if known is None else known.seq
        self._limits.waiters[waiter.no, waiter.step] = msgspec.structs.replace(waiter, seq=seq, woken_at=None)

    def has_ahead(self, waiter: Waiter, lapsed: int) -> bool:
        """See `Desk`."""
        for other in self.in_line(waiter.name, waiter.key):
            if _place(other) >= _place(waiter):
                return False
            if self._counts(other, lapsed) and (other.no, other.step) != (waiter.no, waiter.step):
                return True
        return False

    def _counts(self, waiter: Waiter, lapsed: int) -> bool:
        run = self._tables.runs.get(waiter.no)
        if waiter.woken_at is not None:
            return waiter.woken_at >= lapsed
        return run is not None and run.status in _OPEN

    def awake(self, name: str, key: str, lapsed: int) -> int:
        """See `Desk`."""
        return sum(w.woken_at is not None and w.woken_at >= lapsed for w in self.in_line(name, key))

    def in_line(self, name: str, key: str) -> list[Waiter]:
        """The waiters of a line, in their order."""
        found = [waiter for waiter in self._limits.waiters.values() if (waiter.name, waiter.key) == (name, key)]
        return sorted(found, key=_place)

    def sleepers(self, name: str, key: str, most: int) -> Sequence[Waiter]:
        """See `Desk`."""
        asleep = [waiter for waiter in self.in_line(name, key) if waiter.woken_at is None]
        return [waiter for waiter in asleep if self._counts(waiter, 0)][:most]

    def wake(self, waiter: Waiter, at: int) -> None:
        """See `Desk`."""
        self._limits.waiters[waiter.no, waiter.step] = msgspec.structs.replace(waiter, woken_at=at)
        self.due(waiter.no, at)

    def hurry(self, name: str, key: str) -> None:
        """See `Desk`."""
        for waiter in self.in_line(name, key):
            run = self._tables.runs.get(waiter.no)
            if run is None or waiter.woken_at is None or waiter.woken_at > self.now or run.available_at is None:
                continue
            if not run.instance and run.status in _OPEN and run.created_at < run.available_at <= instant(self.now):
                self._tables.runs[waiter.no] = msgspec.structs.replace(run, available_at=run.created_at)

    def woken(self, no: int) -> int | None:
        """See `Desk`."""
        times = [w.woken_at for (run, _), w in self._limits.waiters.items() if run == no and w.woken_at is not None]
        return min(times, default=None)

    def due(self, no: int, at: int) -> None:
        """See `Desk`."""
        run = self._tables.runs[no]
        self._write.hints[run.id] = None
        if not run.instance and run.status in _OPEN:
            due = instant(at) if run.available_at is None else min(instant(at), run.available_at)
            self._tables.runs[no] = msgspec.structs.replace(run, available_at=due)

    def waited_lines(self, most: int) -> Sequence[tuple[str, str]]:
        """See `Desk`."""
        return sorted({(waiter.name, waiter.key) for waiter in self._limits.waiters.values()})[:most]

    def forget_ended(self, name: str, key: str) -> None:
        """See `Desk`."""
        for waiter in self.in_line(name, key):
            run = self._tables.runs.get(waiter.no)
            if run is None or run.ended_at is not None:
                self.drop_waiter(waiter.no, waiter.step)

    def wake_again(self, name: str, key: str, lapsed: int) -> None:
        """See `Desk`."""
        for waiter in self.in_line(name, key):
            run = self._tables.runs[waiter.no]
            if waiter.woken_at is not None and waiter.woken_at < lapsed and _sleeps(run, self.now):
                self._limits.waiters[waiter.no, waiter.step] = msgspec.structs.replace(waiter, woken_at=None)


class Limiting(Access):
    """The part of a memory store that keeps limits."""

    @property
    def _limits(self) -> LimitTables:
        return self._tables.limits

    def _desk(self, write: Transaction) -> MemoryDesk:
        return MemoryDesk(self._tables, write)

    async def limit(self, name: str) -> StoredLimit | None:
        """See `ports.limits`."""
        with self._lock:
            return self._limits.rows.get(name)

    async def limits(self, *, after: str = "", limit: int = 100) -> Sequence[StoredLimit]:
        """See `ports.limits`."""
        with self._lock:
            return [self._limits.rows[name] for name in sorted(self._limits.rows) if name > after][:limit]

    async def put_limit(self, limit: StoredLimit) -> bool:
        """See `ports.limits`."""
        with self._writing() as write:
            known = self._limits.rows.get(limit.name)
            if limit.revision != (0 if known is None else known.revision):
                return False
            self._limits.rows[limit.name] = msgspec.structs.replace(limit, revision=limit.revision + 1)
            desk = self._desk(write)
            for name, key in desk.waited_lines(len(self._limits.waiters)):
                if name == limit.name:
                    promote(desk, name, key)
            return True

    async def move_places(self, move: PlaceMove) -> PlaceAnswer:
        """See `ports.limits`."""
        with self._writing() as write:
            return move_places(self._desk(write), [move])[0]

    async def tend_limits(self, *, limit: int = 100) -> bool:
        """See `ports.limits`."""
        with self._writing() as write:
            return tend(self._desk(write), limit)

    async def lines(self, name: str, *, after: str | None = None, limit: int = 100) -> Sequence[Line]:
        """See `ports.limits`."""
        with self._writing() as write:
            return [one for one in self._lines(self._desk(write), name) if after is None or one.key > after][:limit]

    def _lines(self, desk: MemoryDesk, name: str) -> list[Line]:
        found: list[Line] = []
        for known, key in sorted(self._limits.lines):
            if known == name:
                held, waiters = len(desk.slots(name, key)), desk.in_line(name, key)
                if held or waiters:
                    since = waiters[0].since if waiters else None
                    found.append(line_of(desk, name, key, held, len(waiters), since))
        return found

    async def busiest(self, name: str, *, limit: int = 20, places: int = 10) -> Sequence[BusyLine]:
        """See `ports.limits`."""
        with self._writing() as write:
            lines = sorted(self._lines(self._desk(write), name), key=lambda one: (-one.waiting, -one.held, one.key))
            return [BusyLine(line, self._holders(line)[:places]) for line in lines[:limit]]

    def _holders(self, line: Line) -> tuple[PlaceView, ...]:
        """Who has the places of a line of this moment: those that do not count are gone from it."""
        found = sorted(place for place in self._limits.places if place[:2] == (line.name, line.key))
        taken = [self._limits.places[place] for place in found]
        return tuple(
            PlaceView(run=self._tables.runs[no].id, step=step, name=line.name, key=line.key) for no, step, _ in taken
        )

    async def places_of(self, run: str) -> Sequence[PlaceView]:
        """See `ports.limits`."""
        with self._writing() as write:
            desk, no = self._desk(write), self._tables.numbers.get(run, 0)
            found = [
                PlaceView(run=run, step=step, name=place[0], key=place[1])
                for place, (holder, step, epoch) in sorted(self._limits.places.items())
                if holder == no and desk.is_held(no, epoch)
            ]
            for waiter in self._limits.waiters.values():
                if waiter.no == no:
                    ahead = desk.in_line(waiter.name, waiter.key).index(waiter)
                    found.append(view_of(desk, run, waiter, ahead))
            return found


def _place(waiter: Waiter) -> tuple[int, float]:
    return waiter.since, float("inf") if waiter.seq is None else waiter.seq


def _sleeps(run: RunRow, now: int) -> bool:
    is_due = run.available_at is not None and micros(run.available_at) <= now
    return not run.instance and run.status in _OPEN and not is_due
