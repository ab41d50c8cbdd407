"""Claiming: finds runs for a worker in the two partial indexes, and leases them.

It searches a queue definition by definition, so neither a million rows nor a backlog of unserved workflows makes a
claim slower. Runs that became due move from one index to the other, a bounded number at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import cache
from typing import Any, TypeAlias

import msgspec

from holdfast.adapters.sql.rows import decoded_pairs, maybe_instant, run_row
from holdfast.adapters.sqlite import raw_statements as raw
from holdfast.adapters.sqlite import statements as sql
from holdfast.adapters.sqlite import suspect_statements as suspects_sql
from holdfast.adapters.sqlite.connections import NotText, is_text
from holdfast.adapters.sqlite.gate import Candidate, Chosen, Definition, QueueGate
from holdfast.adapters.sqlite.transaction import Transaction
from holdfast.core.backoff import put_off
from holdfast.core.shares import Share, fair_order, queue_share, share_of
from holdfast.ports.clock import Clock
from holdfast.ports.leases import ClaimRequest, Claims, WorkerRow
from holdfast.ports.runs import RunRow

PROMOTED_A_CLAIM = 500
BOUNCED_A_CLAIM = 100

Ask: TypeAlias = Callable[[str, tuple[Any, ...]], list[Any]]

_MICROSECOND = timedelta(microseconds=1)


class Prospect(msgspec.Struct):
    """What a worker's queues hold now."""

    mine: list[tuple[str, Definition]]
    homeless: list[tuple[str, Definition]]
    due: list[str]
    next_due: int | None
    gated: list[str]
    elsewhere: Collection[Definition] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to claim, promote or put off."""
        return not self.mine and self.is_plain

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing to promote, to put off or to let in at a gate."""
        return not (self.homeless or self.due or self.gated)


def survey(ask: Ask, worker: WorkerRow, clock: Clock, now: int) -> Prospect:
    """Looks without writing, so that the poll of an idle worker needs no transaction."""
    prospect = Prospect([], [], [], None, [])
    foreign: list[tuple[str, Definition]] = []
    held = frozenset(worker.definitions)
    for queue in dict.fromkeys(worker.queues):
        for definition in _ready_definitions(ask, queue):
            (prospect.mine if definition in held else foreign).append((queue, definition))
        first, has_line = ask(sql.NEXT_DUE, (queue,))[0]
        if has_line:
            prospect.gated.append(queue)
        if first is not None:
            if first <= now:
                prospect.due.append(queue)
            prospect.next_due = first if prospect.next_due is None else min(first, prospect.next_due)
    if foreign:
        prospect.elsewhere = _leased_definitions(ask, clock)
        prospect.homeless = [found for found in foreign if found[1] not in prospect.elsewhere]
    return prospect


class ClaimRuns:
    """`Leases.claim` as an operation of the writer. It remembers what it claimed, in case the answer is lost."""

    _takes = True

    def __init__(self, request: ClaimRequest, ahead: Mapping[Share, int], seen: Prospect | None = None) -> None:
        self._worker = request.worker
        self._limit = request.limit
        self._only = request.only
        self._ahead = ahead
        self._taken: list[RunRow] = []
        self._put_off: list[tuple[str, str]] = []
        self._suspects: set[int] = set()
        self._request = request
        self._seen = seen if seen is not None and seen.is_plain else None  # before the transaction
        self._gates: dict[str, QueueGate] = {}
        self.shares: list[Share] = []
        """What the claimed runs competed as, in their order."""

    def __call__(self, transaction: Transaction) -> Claims:
        """Promotes due runs, claims ready ones, and puts off those that no worker can run."""
        if transaction.is_again and (kept := self._taken_before(transaction)):
            return Claims(kept, None)
        if self._only:
            self._claim_these(transaction)
            return self._answer(transaction, [])
        if self._seen is not None:
            claims = self._claim_from(transaction, self._seen)
            if claims.runs:
                return claims  # else others were quicker, and there may be runs that were not seen
        return self._claim_from(transaction, self._prospect(transaction))

    def _claim_from(self, transaction: Transaction, prospect: Prospect) -> Claims:
        now = transaction.now
        for queue in prospect.due:
            transaction.run(sql.PROMOTE, (queue, now, PROMOTED_A_CLAIM))
        if prospect.due:
            prospect = self._prospect(transaction)
        candidates: list[Candidate] = []
        for queue, definition in prospect.mine:
            candidates += self._ready(transaction, queue, definition, self._limit + 1)
        for queue, definition in prospect.homeless:
            candidates += self._ready(transaction, queue, definition, BOUNCED_A_CLAIM)
        self._taken, self._put_off = [], []
        self._gates = self._open_gates(transaction, prospect.gated)
        return self._answer(transaction, self._go_through(transaction, candidates, prospect.elsewhere))

    def _gate(self, transaction: Transaction, queue: str, chosen: Chosen | None = None) -> QueueGate:
        def put_off(no: int, definition: Definition) -> None:
            self._put_off.append(_put_off(transaction, no, definition))

        elsewhere = cache(lambda: _leased_definitions(transaction.rows, transaction.clock))
        return QueueGate(transaction, self._request, queue, put_off, elsewhere, chosen)

    def _answer(self, transaction: Transaction, left: list[Candidate]) -> Claims:
        taken = {run.no for run in self._taken}
        if self._takes:
            for gate in self._gates.values():
                gate.let_in(taken)
        shares = {no: queue_share(queue) for queue, gate in self._gates.items() for _, _, no, _ in gate.runs}
        self.shares = [shares.get(run.no) or share_of(run.workflow) for run in self._taken]
        lines = [gate for gate in self._gates.values() if gate.has_line]
        is_held_back = bool(lines) and len(taken) < self._limit
        times = [gate.next_at for gate in lines if gate.next_at is not None]
        return Claims(self._taken, self._next_due(transaction, left, times), tuple(self._put_off), is_held_back)

    def _prospect(self, transaction: Transaction) -> Prospect:
        """Finds the candidates. Runs whose definition is not a text cannot be found, and are set aside."""
        try:
            return survey(transaction.rows, self._worker, transaction.clock, transaction.now)
        except NotText:
            _set_unreadable_aside(transaction)
            return survey(transaction.rows, self._worker, transaction.clock, transaction.now)

    def _open_gates(self, transaction: Transaction, queues: list[str]) -> dict[str, QueueGate]:
        """The gates of these queues. Runs that cannot be found are set aside; if that does not help, only this queue
        waits."""
        gates: dict[str, QueueGate] = {}
        for queue in queues:
            try:
                gates[queue] = self._gate(transaction, queue)
            except NotText:
                _set_unreadable_aside(transaction)
                with suppress(NotText):
                    gates[queue] = self._gate(transaction, queue)
        return gates

    def _go_through(
        self, transaction: Transaction, candidates: list[Candidate], elsewhere: Collection[Definition]
    ) -> list[Candidate]:
        """Claims or puts off the candidates in their order until the limit is reached. Returns the rest."""
        ordered = self._in_order(transaction, candidates)
        for place, (_, _, no, definition) in enumerate(ordered):
            if len(self._taken) == self._limit:
                return [each for each in ordered[place:] if each[2] not in self._suspects]
            if definition in self._worker.definitions:
                self._taken.append(self._take(transaction, no))
            elif definition not in elsewhere:
                self._put_off.append(_put_off(transaction, no, definition))
        return []

    def _in_order(self, transaction: Transaction, candidates: list[Candidate]) -> list[Candidate]:
        """The candidates in the order of claims, with at most one suspect."""
        held = self._worker.definitions
        suspects = sorted(each for each in candidates if each[2] in self._suspects and each[3] in held)
        if suspects and not transaction.rows(suspects_sql.SUSPECTS_HELD, (self._worker.instance,)):
            suspects = suspects[1:]
        passed_over = {no for _, _, no, _ in suspects}
        return fair_order(
            [each for each in candidates if each[2] not in passed_over],
            share=lambda each: share_of(each[3][0]),
            place=lambda each: each[:3],
            ahead=self._ahead,
            lines={queue_share(queue): gate.runs for queue, gate in self._gates.items()},
        )

    def _claim_these(self, transaction: Transaction) -> None:
        candidates: list[Candidate] = []
        at_gates: dict[str, Chosen] = {}
        self._taken, self._put_off = [], []
        for run in dict.fromkeys(self._only):
            found = transaction.row(sql.CLAIMABLE, (run, transaction.now))
            if found is not None and found[5] in self._worker.queues:
                priority, available_at, no, workflow, version, queue, is_suspect, share = found
                self._suspects |= {no} if is_suspect else set()
                candidate = (-priority, available_at, no, (workflow, version))
                if share is None or (workflow, version) not in self._worker.definitions:
                    candidates.append(candidate)
                else:
                    at_gates.setdefault(queue, {}).setdefault(share, []).append(candidate)
        self._gates = {queue: self._gate(transaction, queue, chosen) for queue, chosen in at_gates.items()}
        self._go_through(transaction, candidates, _leased_definitions(transaction.rows, transaction.clock))

    def _ready(self, transaction: Transaction, queue: str, definition: Definition, limit: int) -> list[Candidate]:
        values = (queue, *definition, transaction.now, limit)
        fresh, suspects = transaction.rows(sql.READY, values), transaction.rows(suspects_sql.SUSPECTS_READY, values)
        self._suspects.update(no for _, _, no in suspects)
        return [(-priority, available_at, no, definition) for priority, available_at, no in (*fresh, *suspects)]

    def _take(self, transaction: Transaction, no: int) -> RunRow:
        transaction.run(sql.CLAIM, (self._worker.instance, self._worker.worker, no))
        return run_row(transaction.row(sql.RUN_BY_NO, (no,)))

    def _taken_before(self, transaction: Transaction) -> list[RunRow]:
        now = [run_row(transaction.row(sql.RUN_BY_NO, (run.no,))) for run in self._taken]
        return [
            run
            for before, run in zip(self._taken, now, strict=True)
            if (run.instance, run.epoch) == (before.instance, before.epoch)
        ]

    def _next_due(self, transaction: Transaction, left: list[Candidate], times: list[int]) -> Any:
        times += [available_at for _, available_at, _, definition in left if definition in self._worker.definitions]
        for queue in self._worker.queues:
            first, _ = transaction.row(sql.NEXT_DUE, (queue,))
            times += () if first is None else (first,)
        return maybe_instant(min(times, default=None))


class DueRuns(ClaimRuns):
    """`Leases.due`: a claim that takes nothing. (It promotes, and puts off what no worker can run.)"""

    _takes = False

    def _take(self, transaction: Transaction, no: int) -> RunRow:
        return run_row(transaction.row(sql.RUN_BY_NO, (no,)))


def _ready_definitions(ask: Ask, queue: str) -> Iterator[Definition]:
    found = ask(sql.FIRST_READY, (queue,))
    while found:
        yield found[0]
        workflow, version = found[0]
        found = ask(sql.NEXT_VERSION_READY, (queue, workflow, version))
        found = found or ask(sql.NEXT_WORKFLOW_READY, (queue, workflow))


def _set_unreadable_aside(transaction: Transaction) -> None:
    for no, *names in transaction.rows(raw.CLAIMED_BY):
        if not all(map(is_text, names)):
            transaction.run(raw.SET_ASIDE, ("damaged: its definition or share is not a text", no))


def _put_off(transaction: Transaction, no: int, definition: Definition) -> tuple[str, str]:
    run, bounces = transaction.row(sql.BOUNCES, (no,))
    delay = put_off(bounces) // _MICROSECOND
    workflow, version = definition
    named = f"{workflow} (version {version})" if version else workflow
    note = f"no live worker holds workflow {named}; start one that does"
    transaction.run(sql.BOUNCE, (transaction.now + delay, note, no))
    return run, note


def _leased_definitions(ask: Ask, clock: Clock) -> set[Definition]:
    boot, second = clock.boot()
    rows = ask(sql.LEASED_DEFINITIONS, (boot, int(second * 1_000_000)))
    return {definition for (text,) in rows for definition in decoded_pairs(text)}
