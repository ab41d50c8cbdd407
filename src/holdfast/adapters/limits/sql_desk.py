"""The desk of a store that speaks SQL: each question is one named statement of the store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeAlias

import msgspec

from holdfast.adapters.limits.desk import Desk, Waiter
from holdfast.adapters.limits.views import line_of, view_of
from holdfast.core.limit import Rule, Setting
from holdfast.ports.limits import BusyLine, Line, PlaceView, StoredLimit

Ask: TypeAlias = Callable[[str, Sequence[Any]], list[Any]]
"""All rows of a statement, inside the transaction."""

LAST = 2**62
"""The number of a waiter that has none yet."""


class LimitStatements(msgspec.Struct, frozen=True, kw_only=True):
    """The statements of a store, by what they are for."""

    is_current: str
    held: str
    setting: str
    make_lines: str
    lock_lines: str
    line: str
    put_line: str
    free_slots: str
    slots: str
    places: str
    add_place: str
    lines_of: str
    drop_places: str
    drop_waiter: str
    waiters: str
    put_waiter: str
    has_ahead: str
    awake: str
    sleepers: str
    set_woken: str
    id_of: str
    due: str
    hurry: str
    woken: str
    waited_lines: str
    lines_of_limit: str
    forget_ended: str
    wake_again: str
    limit: str
    limits: str
    make_limit: str
    put_limit: str
    listed_lines: str
    busiest_lines: str
    holders: str
    places_of: str
    waiters_of: str
    ahead: str


class SqlDesk(Desk):
    """See the module. `hints` collects the runs whose listeners are told afterwards; `as_list` makes a list one value
    of a statement.

    What was read of a line or a run is remembered: no other transaction changes it meanwhile.
    """

    def __init__(
        self, ask: Ask, statements: LimitStatements, now: int, *, as_list: Callable[[Sequence[object]], object] = list
    ) -> None:
        self.now: int = now
        self.hints: dict[str, None] = {}
        self._ask = ask
        self._sql = statements
        self._as_list = as_list
        self._lines: dict[tuple[str, str], tuple[int, int]] = {}
        self._slots: dict[tuple[str, str], set[int]] = {}
        self._settings: dict[str, Setting | None] = {}
        self._held: set[tuple[int, int]] = set()
        self._places: dict[tuple[int, str, int], set[tuple[str, str]]] = {}
        self._waiters: dict[tuple[int, str], Waiter] = {}
        self._joined: set[tuple[str, str]] = set()
        """Lines that a step has joined here: every later one has it ahead."""

    def is_current(self, no: int, epoch: int) -> bool:
        """See `Desk`."""
        return bool(self._ask(self._sql.is_current, (no, epoch)))

    def is_held(self, no: int, epoch: int) -> bool:
        """See `Desk`."""
        return (no, epoch) in self._held

    def setting(self, name: str) -> Setting | None:
        """See `Desk`."""
        if name not in self._settings:
            rows = self._ask(self._sql.setting, (name,))
            self._settings[name] = (Rule(*rows[0][:3]), bool(rows[0][3])) if rows else None
        return self._settings[name]

    def declare(self, name: str, rule: Rule) -> None:
        """See `Desk`."""
        self._ask(self._sql.make_limit, (rule.interval, rule.burst, rule.at_once, False, b"{}", name))
        self._settings.pop(name, None)

    def lock(self, lines: Sequence[tuple[str, str]]) -> None:
        """See `Desk`."""
        if lines:
            values = tuple(self._as_list(each) for each in zip(*lines, strict=True))
            self._ask(self._sql.make_lines, values)
            for name, key, tat, quiet_until in self._ask(self._sql.lock_lines, values):
                self._lines[name, key] = tat, quiet_until

    def meet(self, runs: Collection[int]) -> None:
        """See `Desk`."""
        values = (self._as_list(sorted(runs)),)
        self._held = {(no, epoch) for no, epoch in self._ask(self._sql.held, values)}
        for name, key, no, step, epoch in self._ask(self._sql.places, values):
            self._places.setdefault((no, step, epoch), set()).add((name, key))
        waiters = [Waiter(*row) for row in self._ask(self._sql.waiters, values)]
        self._waiters = {(waiter.no, waiter.step): waiter for waiter in waiters}

    def line(self, name: str, key: str) -> tuple[int, int]:
        """See `Desk`."""
        if (name, key) not in self._lines:
            rows = self._ask(self._sql.line, (name, key))
            self._lines[name, key] = (rows[0][0], rows[0][1]) if rows else (0, 0)
        return self._lines[name, key]

    def put_line(self, name: str, key: str, tat: int, quiet_until: int) -> None:
        """See `Desk`."""
        self._lines[name, key] = tat, quiet_until
        self._ask(self._sql.put_line, (tat, quiet_until, name, key))

    def slots(self, name: str, key: str) -> set[int]:
        """See `Desk`."""
        line = (name, key)
        if line not in self._slots:
            self._ask(self._sql.free_slots, line)
            self._slots[line] = {slot for (slot,) in self._ask(self._sql.slots, line)}
        return self._slots[line]

    def places(self, no: int, step: str, epoch: int) -> set[tuple[str, str]]:
        """See `Desk`."""
        return self._places.get((no, step, epoch), set())

    def add_place(self, name: str, key: str, slot: int, no: int, step: str, epoch: int) -> None:
        """See `Desk`."""
        self._ask(self._sql.add_place, (name, key, slot, no, step, epoch))
        self._slots.setdefault((name, key), set()).add(slot)
        self._places.setdefault((no, step, epoch), set()).add((name, key))

    def lines_of(self, steps: Collection[tuple[int, str]]) -> set[tuple[str, str]]:
        """See `Desk`."""
        rows = self._ask(self._sql.lines_of, (self._as_list(sorted({no for no, _ in steps})),)) if steps else ()
        return {(name, key) for name, key, no, step in rows if (no, step) in steps}

    def drop(self, no: int, step: str) -> None:
        """See `Desk`."""
        self._ask(self._sql.drop_places, (no, step))
        self._slots.clear()
        for place in [place for place in self._places if place[:2] == (no, step)]:
            del self._places[place]
        self.drop_waiter(no, step)

    def drop_waiter(self, no: int, step: str) -> None:
        """See `Desk`."""
        self._ask(self._sql.drop_waiter, (no, step))
        self._waiters.pop((no, step), None)
        self._joined.clear()

    def waiter(self, no: int, step: str) -> Waiter | None:
        """See `Desk`."""
        return self._waiters.get((no, step))

    def put_waiter(self, waiter: Waiter) -> None:
        """See `Desk`."""
        self._ask(self._sql.put_waiter, (waiter.name, waiter.key, waiter.since, waiter.no, waiter.step))
        known = self.waiter(waiter.no, waiter.step)
        seq = None if known is None else known.seq
        self._waiters[waiter.no, waiter.step] = msgspec.structs.replace(waiter, woken_at=None, seq=seq)
        self._joined.add((waiter.name, waiter.key))

    def has_ahead(self, waiter: Waiter, lapsed: int) -> bool:
        """See `Desk`."""
        if waiter.seq is None and (waiter.name, waiter.key) in self._joined:
            return True
        seq = LAST if waiter.seq is None else waiter.seq
        values = (waiter.name, waiter.key, waiter.since, seq, lapsed)
        return bool(self._ask(self._sql.has_ahead, values))

    def awake(self, name: str, key: str, lapsed: int) -> int:
        """See `Desk`."""
        return int(self._ask(self._sql.awake, (name, key, lapsed))[0][0])

    def sleepers(self, name: str, key: str, most: int) -> Sequence[Waiter]:
        """See `Desk`."""
        return [Waiter(*row) for row in self._ask(self._sql.sleepers, (name, key, most))]

    def wake(self, waiter: Waiter, at: int) -> None:
        """See `Desk`."""
        self._ask(self._sql.set_woken, (at, waiter.no, waiter.step))
        self.due(waiter.no, at)

    def hurry(self, name: str, key: str) -> None:
        """See `Desk`."""
        self._ask(self._sql.hurry, (self.now, name, key))

    def woken(self, no: int) -> int | None:
        """See `Desk`."""
        found: int | None = self._ask(self._sql.woken, (no,))[0][0]
        return found

    def due(self, no: int, at: int) -> None:
        """See `Desk`."""
        self._ask(self._sql.due, (at, self.now, no))
        self.hints.update({run: None for (run,) in self._ask(self._sql.id_of, (no,))})

    def waited_lines(self, most: int) -> Sequence[tuple[str, str]]:
        """See `Desk`."""
        return [(name, key) for name, key in self._ask(self._sql.waited_lines, (most,))]

    def forget_ended(self, name: str, key: str) -> None:
        """See `Desk`."""
        self._ask(self._sql.forget_ended, (name, key))

    def wake_again(self, name: str, key: str, lapsed: int) -> None:
        """See `Desk`."""
        self._ask(self._sql.wake_again, (name, key, lapsed, self.now))

    # -- limits as they are stored and shown ---------------------------------------------------------------------------

    def put_limit(self, limit: StoredLimit) -> bool:
        """Writes the row if it has that revision; returns whether it did."""
        rule = limit.rule
        values = (rule.interval, rule.burst, rule.at_once, limit.is_paused, limit.body, limit.name)
        if limit.revision:
            return bool(self._ask(self._sql.put_limit, (*values, limit.revision)))
        return bool(self._ask(self._sql.make_limit, values))

    def lines_of_limit(self, name: str) -> Sequence[tuple[str, str]]:
        """The lines of a limit that have waiters."""
        return [(name, key) for (key,) in self._ask(self._sql.lines_of_limit, (name,))]

    def limit(self, name: str) -> StoredLimit | None:
        rows = self._ask(self._sql.limit, (name,))
        return stored_limit(rows[0]) if rows else None

    def limits(self, after: str, most: int) -> list[StoredLimit]:
        """The limits after that name, by name."""
        return [stored_limit(row) for row in self._ask(self._sql.limits, (after, most))]

    def listed_lines(self, name: str, after: str | None, most: int) -> list[Line]:
        """See `ports.limits`."""
        rows = self._ask(self._sql.listed_lines, (name, after or "", after is None, most))
        return [line_of(self, name, *row) for row in rows]

    def busiest(self, name: str, most: int, places: int) -> list[BusyLine]:
        """See `ports.limits`."""
        rows = self._ask(self._sql.busiest_lines, (name, most))
        return [BusyLine(line_of(self, name, *row), self._holders(name, row[0], places)) for row in rows]

    def _holders(self, name: str, key: str, most: int) -> tuple[PlaceView, ...]:
        rows = self._ask(self._sql.holders, (name, key, most))
        return tuple(PlaceView(run=run, step=step, name=name, key=key) for run, step in rows)

    def places_of(self, run: str) -> list[PlaceView]:
        """See `ports.limits`."""
        found = [
            PlaceView(run=run, step=step, name=name, key=key)
            for name, key, step in self._ask(self._sql.places_of, (run,))
        ]
        for row in self._ask(self._sql.waiters_of, (run,)):
            waiter = Waiter(*row)
            values = (waiter.name, waiter.key, waiter.since, waiter.seq)
            found.append(view_of(self, run, waiter, int(self._ask(self._sql.ahead, values)[0][0])))
        return found


def stored_limit(row: Any) -> StoredLimit:
    """The limit in a row of the table."""
    name, revision, interval, burst, at_once, is_paused, body = row
    rule = Rule(interval, burst, at_once)
    return StoredLimit(name=name, revision=revision, rule=rule, is_paused=bool(is_paused), body=bytes(body))
