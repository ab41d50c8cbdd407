"""Admission at the gate of a queue, inside the claim's transaction: `core.gate` decides."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from typing import TypeAlias

from holdfast.adapters.sql.rows import decoded_gate
from holdfast.adapters.sqlite import queue_statements as sql
from holdfast.adapters.sqlite.transaction import Transaction
from holdfast.core.gate import MANY, Pick, line, room, time_after, times_after
from holdfast.core.rate import spent
from holdfast.core.shares import Share
from holdfast.ports.leases import ClaimRequest

Definition: TypeAlias = tuple[str, str]
Candidate: TypeAlias = tuple[int, int, int, Definition]  # minus priority, available_at, no: its place in its share
Chosen: TypeAlias = dict[Share, list[Candidate]]
"""Of the runs that a claim names, those that wait at this gate."""

PAGE = 100
BOUNCED_A_SHARE = 100
FORGOTTEN_A_RUN = 2
"""A run that begins leaves one share to remember at most, so claims keep up."""


class QueueGate:
    """The gate of one queue, for one claim."""

    def __init__(
        self,
        transaction: Transaction,
        request: ClaimRequest,
        queue: str,
        put_off: Callable[[int, Definition], None],
        elsewhere: Callable[[], Collection[Definition]],
        chosen: Chosen | None = None,
    ) -> None:
        self._transaction = transaction
        self._request = request
        self._queue = queue
        self._put_off = put_off
        self._elsewhere = elsewhere
        self._chosen = chosen
        gate, time, until = transaction.row(sql.GATE, (queue,)) or (b"{}", 0, 0)
        self._gate = decoded_gate(gate)
        self._time: int = time
        self._until: int = until
        self.next_at: int | None = None
        self.picks: list[Pick[Candidate]] = self._admitted()

    @property
    def runs(self) -> list[Candidate]:
        """Whom it lets in, in order."""
        return [pick.run for pick in self.picks]

    def let_in(self, taken: Collection[int]) -> None:
        """Of these the ones that it let in begin: their shares move on, and the rate is used. Shares that do not matter
        any longer are forgotten, some at a time."""
        picks = [pick for pick in self.picks if pick.run[2] in taken]
        if not picks:
            return
        for share, time in times_after(picks).items():
            self._transaction.run(sql.MOVE_SHARE, (self._queue, share, time))
        until, now, interval = self._until, self._transaction.now, self._gate.interval
        until = spent(interval, until, now, len(picks)) if interval else until
        time = time_after(self._time, picks)
        self._transaction.run(sql.MOVE_QUEUE, (time, until, self._queue))
        self._transaction.run(sql.FORGET_SHARES, (self._queue, time, FORGOTTEN_A_RUN * len(picks)))

    @property
    def has_line(self) -> bool:
        return self._transaction.row(sql.IS_AT_GATE, (self._queue,)) is not None

    def _admitted(self) -> list[Pick[Candidate]]:
        gate, instance = self._gate, self._request.worker.instance
        begun = held = 0
        if gate.at_once is not None:
            begun = self._count(sql.AWAKE if gate.frees_parked else sql.BEGUN)
        if gate.per_worker is not None:
            (held,) = self._transaction.row(sql.HELD_IN_QUEUE, (instance, self._queue))
        limit, now = self._request.limit, self._transaction.now
        space = room(gate, limit, begun=begun, held=held, until=self._until, now=now)
        self.next_at = space.next_at
        if not space.count:
            return []
        found = line(
            self._shares(),
            runs_of=self._runs_of,
            places_of=self._places_of,
            has_many=lambda share: self._transaction.row(sql.HAS_MORE, (self._queue, share, MANY)) is not None,
            gate=gate,
            time=self._time,
        )
        return list(islice(found, space.count))

    def _count(self, statement: str, *of: str) -> int:
        now = (self._transaction.now,) if self._gate.frees_parked else ()
        (count,) = self._transaction.row(statement, (self._queue, *of, *now))
        return int(count)

    def _places_of(self, share: Share) -> int | None:
        most = self._gate.share_at_once
        if most is None:
            return None
        return most - self._count(sql.SHARE_AWAKE if self._gate.frees_parked else sql.SHARE_BEGUN, share)

    def _shares(self) -> Iterator[tuple[int, Share]]:
        if self._chosen is not None:
            times = ((self._transaction.row(sql.SHARE_TIME, (self._queue, share)), share) for share in self._chosen)
            yield from sorted((found[0] if found else self._time, share) for found, share in times)
            return
        after: tuple[int, str] = (-1, "")
        size = min(self._request.limit + 1, PAGE)
        while page := self._transaction.rows(sql.IN_LINE, (self._queue, *after, size)):
            yield from page
            after = page[-1]

    def _runs_of(self, share: Share) -> Iterator[Candidate]:
        """The runs of a share that this worker can run. What no worker can run is put off, and a share without runs
        leaves the line."""
        if self._chosen is not None:
            return iter(sorted(self._chosen[share]))
        held, mine, is_empty = self._request.worker.definitions, list[Definition](), True
        for definition in list(self._definitions(share)):
            is_empty = False
            if definition in held:
                mine.append(definition)
            elif definition not in self._elsewhere():
                for _, _, no in self._rows(share, definition, BOUNCED_A_SHARE, 0):
                    self._put_off(no, definition)
        if is_empty:
            self._transaction.run(sql.LEAVE_LINE, (self._queue, share))
        if len(mine) == 1:
            return self._waiting(share, mine[0])
        most = self._request.limit
        return iter(sorted(each for one in mine for each in islice(self._waiting(share, one), most)))

    def _waiting(self, share: Share, definition: Definition) -> Iterator[Candidate]:
        size, offset = 1, 0
        while rows := self._rows(share, definition, size, offset):
            for priority, available_at, no in rows:
                yield -priority, available_at, no, definition
            offset += len(rows)
            if len(rows) < size:
                return
            size = min(size * 4, self._request.limit)

    def _rows(self, share: Share, definition: Definition, size: int, offset: int) -> Sequence[tuple[int, int, int]]:
        return self._transaction.rows(sql.AT_GATE, (self._queue, share, *definition, size, offset))

    def _definitions(self, share: Share) -> Iterator[Definition]:
        ask, key = self._transaction.rows, (self._queue, share)
        found = ask(sql.FIRST_AT_GATE, key)
        while found:
            yield found[0]
            workflow, version = found[0]
            found = ask(sql.NEXT_VERSION_AT_GATE, (*key, workflow, version))
            found = found or ask(sql.NEXT_WORKFLOW_AT_GATE, (*key, workflow))
