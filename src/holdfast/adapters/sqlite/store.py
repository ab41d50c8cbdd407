"""The SQLite store: the verbs of the ports, each one operation of the writer or one query of a reader.

A store belongs to the process that opened it. A forked child must open its own: SQLite's locks are not inherited.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeAlias, TypeVar

import apsw

from holdfast.adapters.sql.listeners import Listeners
from holdfast.adapters.sql.rows import counted, maybe_instant, maybe_micros, run_row, worker_row
from holdfast.adapters.sqlite import audit, leases, messages, trees
from holdfast.adapters.sqlite import statements as sql
from holdfast.adapters.sqlite.blob_store import Keeping
from holdfast.adapters.sqlite.board import Board
from holdfast.adapters.sqlite.claims import ClaimRuns, DueRuns, survey
from holdfast.adapters.sqlite.condition import Examined, condition_of
from holdfast.adapters.sqlite.connection import Durability, NotText, fetch, open_writable
from holdfast.adapters.sqlite.heart import SqliteHeart
from holdfast.adapters.sqlite.limits import Limiting
from holdfast.adapters.sqlite.link import Link
from holdfast.adapters.sqlite.location import Location
from holdfast.adapters.sqlite.open_checks import discard, prepare
from holdfast.adapters.sqlite.overview import Looking
from holdfast.adapters.sqlite.queues import Queued
from holdfast.adapters.sqlite.readers import Readers
from holdfast.adapters.sqlite.run_list import page
from holdfast.adapters.sqlite.shared_transactions import Lending
from holdfast.adapters.sqlite.starts import CreateRun
from holdfast.adapters.sqlite.streams import Streaming
from holdfast.adapters.sqlite.transaction import Operation
from holdfast.adapters.sqlite.turns import commit_turn
from holdfast.adapters.sqlite.updates import Asked
from holdfast.adapters.sqlite.writer import Writer
from holdfast.adapters.system.clock import SystemClock
from holdfast.adapters.system.forked import belongs_to_this_process
from holdfast.adapters.telemetry.logs import logged
from holdfast.core.checksums import checked_shown
from holdfast.core.instants import nearest_instant
from holdfast.core.shares import Claimers
from holdfast.core.status import Status
from holdfast.core.turn import Row, micros
from holdfast.errors import NotAllowedHere, StoreRefused
from holdfast.ports.clock import Clock
from holdfast.ports.condition import Condition
from holdfast.ports.inbox import Delivery, Message, Publication, Unconsumed, Watcher
from holdfast.ports.journal import Answer, Commit, Tree, Verdict, answered
from holdfast.ports.leases import ClaimRequest, Claims, Held, Lease, Taken, TakeOver, Taking, WorkerRow
from holdfast.ports.runs import Creation, Filter, Made, NewRun, Page, RunRow
from holdfast.ports.telemetry import Tell
from holdfast.ports.transactions import holding

T = TypeVar("T")
Rows: TypeAlias = list[Row]  # `list` is a verb of the port
Trees: TypeAlias = list[Tree]
UnreadOf: TypeAlias = Mapping[int, list[Unconsumed]]

_MANY = 16


async def open_sqlite(
    address: str | os.PathLike[str],
    *,
    clock: Clock | None = None,
    auto_migrate: bool = True,
    durability: Durability = "full",
    max_connections: int = 10,
    tell: Tell | None = None,
) -> SqliteStore:
    """Opens the store at a path or URL (`sqlite:///file.db`, `sqlite:////folder/file.db`, `sqlite:///:memory:`).

    Makes the file if it is missing and brings its schema up to date. `durability="normal"` syncs at checkpoints only: a
    power cut may then lose the last commits. At most `max_connections` are open for reading; writing has its own.
    Raises `StoreRefused` with the reason if a file cannot be used.
    """
    location = await asyncio.to_thread(prepare, address, auto_migrate=auto_migrate, durability=durability)
    chosen = "off" if location.folder else durability
    return SqliteStore(location, clock or SystemClock(), chosen, max_connections, tell)


class SqliteStore(Keeping, Looking, Examined, Queued, Limiting, Streaming, Asked, Lending):
    """A `ports.store.Store` in one file. Usable from any thread and event loop of the process that opened it."""

    def __init__(
        self, location: Location, clock: Clock, durability: Durability, readers: int = 10, tell: Tell | None = None
    ) -> None:
        self._location = location
        self._tell = tell or logged().tell
        self._clock = clock
        self._durability: Durability = durability
        self._pid = os.getpid()
        self._listeners = Listeners(self._tell)
        self._claimers = Claimers()
        self._readers = Readers(location.path, readers)
        link = self._link()
        link.connected()  # open as long as the store is: who closes last must be able to empty the log
        self._writer = Writer(link, clock, self._listeners.tell)
        belongs_to_this_process(self)
        self._end = weakref.finalize(self, _let_go, location, audit.watch(location.path), self._pid)

    @property
    def url(self) -> str:
        """The address of the file."""
        return self._location.url

    @property
    def clock(self) -> Clock:
        """The clocks of this host, unless others were given."""
        return self._clock

    def subscribe(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Calls the listener with hints after each commit of this process, on the committing thread."""
        return self._listeners.add(listener)

    def changes(self) -> int:
        """Grows when another connection wrote; within this process that is only the heartbeat."""
        self._check_process()
        return self._writer.changes()

    async def close(self) -> None:
        """Finishes all accepted work and closes every connection."""
        self._check_process()
        self._writer.flush()
        self._readers.close()
        await asyncio.to_thread(self._writer.close)
        self._end()

    # -- journal -------------------------------------------------------------------------------------------------------

    async def commit(self, batch: Sequence[Commit]) -> Sequence[Answer]:
        """See `ports.journal`."""
        if not batch:
            return []
        if len(batch) == 1:
            return [await self._write(partial(commit_turn, commit=batch[0]), is_large=_is_large(batch[0]))]
        self._check_writable()
        return answered(await self._writer.run_all([partial(commit_turn, commit=commit) for commit in batch]))

    def commit_now(self, commit: Commit) -> Verdict | None:
        """See `ports.journal`."""
        self._check_process()
        if _is_large(commit):
            return None
        return self._writer.run_now(partial(commit_turn, commit=commit))

    async def read(self, runs: Mapping[int, int]) -> Mapping[int, Rows]:
        """See `ports.journal`."""

        def ask(connection: apsw.Connection) -> Mapping[int, Rows]:
            found: dict[int, Rows] = {}
            for no, first in runs.items():
                ids = fetch(connection, sql.ID_OF_RUN, (no,))
                found[no] = [Row(ids[0][0], *row) for row in fetch(connection, sql.READ_FROM, (no, first))]
            return found

        return self._read(ask)

    async def history(self, run: str, *, after_seq: int = 0, limit: int = 1000) -> Rows:
        """See `ports.journal`."""

        def ask(connection: apsw.Connection) -> Rows:
            numbers = fetch(connection, sql.NO_OF_RUN, (run,))
            rows = fetch(connection, sql.READ_AFTER, (numbers[0][0], after_seq, limit)) if numbers else []
            return [Row(run, *row) for row in rows]

        return self._read(ask)

    async def read_tree(self, root: str, *, from_seq: int = 0, limit: int = 1000) -> Rows:
        """See `ports.journal`. Off the event loop: a tree may be large, and so may the store."""
        return await asyncio.to_thread(self._read, partial(trees.rows_of, root=root, from_seq=from_seq, limit=limit))

    async def last_seq(self, root: str) -> int | None:
        """See `ports.journal`."""
        found: Sequence[tuple[int | None]] = self._rows(sql.LAST_SEQ, root, root)
        return found[0][0]

    async def trees(self, *, after: str = "", limit: int = 100) -> Trees:
        """See `ports.journal`. Off the event loop: it looks at every run that has not ended."""
        return [Tree(*row) for row in await asyncio.to_thread(self._rows, sql.OPEN_TREES, after, limit)]

    # -- runs ----------------------------------------------------------------------------------------------------------

    async def create(
        self, new: NewRun, *, key_since: datetime, instance: str = "", worker: str = "", first: Commit | None = None
    ) -> Creation:
        """See `ports.runs`."""
        since = micros(key_since) if new.started.key else 0
        creation = await self._write(CreateRun(new, since, instance, worker, first))
        if instance and isinstance(creation, Made) and creation.run.instance:
            self._claimers.count(instance, creation.run.workflow)
        return creation

    async def get(self, run: str) -> RunRow | None:
        """See `ports.runs`."""
        rows = self._rows(sql.RUN_BY_ID, run)
        return run_row(rows[0]) if rows else None

    async def list(self, which: Filter, *, after: str = "", limit: int = 100) -> Page:
        """See `ports.runs`."""
        return self._read(lambda connection: page(connection, which, after, limit))

    async def count(self) -> dict[Status, int]:
        """See `ports.runs`. Off the event loop: it counts every run."""
        rows = await asyncio.to_thread(self._rows, sql.COUNT_BY_STATUS)
        return counted(rows)

    async def exposed(self, run: str, name: str) -> tuple[bytes, str] | None:
        """See `ports.runs`."""
        rows = self._rows(sql.EXPOSED, run, name)
        return checked_shown(run, name, *rows[0]) if rows else None

    async def exposures(self, run: str) -> Sequence[tuple[str, bytes, str]]:
        """See `ports.runs`; by name."""
        return [(name, *checked_shown(run, name, *shown)) for name, *shown in self._rows(sql.EXPOSURES, run)]

    # -- inbox ---------------------------------------------------------------------------------------------------------

    async def send(self, message: Message) -> Delivery:
        """See `ports.inbox`."""
        return await self._write(lambda transaction: messages.send(transaction, message))

    async def replace(self, message: Message, no: int) -> Delivery:
        """See `ports.inbox`."""
        return await self._write(lambda transaction: messages.replace(transaction, message, no))

    async def publish(self, publication: Publication) -> Sequence[str]:
        """See `ports.inbox`."""
        return await self._write(lambda transaction: messages.publish(transaction, publication), is_large=True)

    async def watchers(self, topic: str) -> Sequence[Watcher]:
        """See `ports.inbox`; oldest first."""
        return [Watcher(run, key, nearest_instant(since)) for run, key, since in self._rows(sql.WATCHERS, topic)]

    async def unread(self, runs: Mapping[int, int]) -> UnreadOf:
        """See `ports.inbox`."""
        return self._read(
            lambda connection: {
                no: [Unconsumed(*row) for row in fetch(connection, sql.UNREAD, (no, seen))] for no, seen in runs.items()
            }
        )

    # -- leases --------------------------------------------------------------------------------------------------------

    async def register(self, worker: WorkerRow, ttl: timedelta, *, takes_over: TakeOver) -> Sequence[str]:
        """See `ports.leases`."""
        return await self._write(leases.Register(worker, ttl, takes_over))

    def heart(self, instance: str, ttl: timedelta) -> SqliteHeart:
        """See `ports.leases`."""
        self._check_process()
        return SqliteHeart(instance, ttl, self._link(), self._clock, self._listeners.tell)

    async def claim(self, request: ClaimRequest) -> Claims:
        """See `ports.leases`. `max_claims` has no effect here: such a run is claimed too."""
        worker, limit, shares = request.worker, request.limit, self._claimers[request.worker.instance]
        if limit <= 0 or not request.only:
            now = micros(self._clock.now())
            with suppress(NotText):  # the writer sets aside what cannot be read
                prospect = self._read(lambda connection: survey(partial(fetch, connection), worker, self._clock, now))
                if limit <= 0 or prospect.is_empty:
                    return Claims([], maybe_instant(prospect.next_due))
        claim = ClaimRuns(request, shares.ahead)
        claims = await self._write(claim, is_large=limit > _MANY)
        shares.took(claim.shares)
        return claims

    async def due(self, request: ClaimRequest) -> Claims:
        """See `ports.leases`."""
        ahead = self._claimers[request.worker.instance].ahead
        return await self._write(DueRuns(request, ahead), is_large=request.limit > _MANY)

    async def acquit(self, run: int, *, epoch: int) -> bool:
        """See `ports.leases`."""
        return await self._write(lambda transaction: leases.acquit(transaction, run, epoch))

    async def reinstate(self, run: str, *, instance: str, epoch: int) -> bool:
        """See `ports.leases`."""
        return await self._write(lambda transaction: leases.reinstate(transaction, run, instance, epoch))

    async def lease(self, run: str) -> Lease | None:
        """See `ports.leases`."""
        return self._read(lambda connection: leases.lease_of(partial(fetch, connection), self._clock, run))

    async def held(self, instance: str) -> Mapping[str, Held]:
        """See `ports.leases`."""
        return {run: Held(epoch, inbox_last) for run, epoch, inbox_last in self._rows(sql.HELD, instance)}

    async def take(self, run: str, *, instance: str, steal: bool = False) -> Taking:
        """See `ports.leases`."""
        taking = await self._write(leases.Take(run, instance, steal=steal))
        if isinstance(taking, Taken):
            self._claimers.count(instance, taking.run.workflow)
        return taking

    async def release(self, run: int, *, epoch: int, until: datetime | None, inbox_seen: int, note: str = "") -> bool:
        """See `ports.leases`."""
        values = (note, inbox_seen, maybe_micros(until), run, epoch)
        return await self._write(lambda transaction: leases.release(transaction, values))

    async def release_all(self, instance: str) -> int:
        """See `ports.leases`."""
        self._claimers.pop(instance, None)
        return await self._write(lambda transaction: leases.release_all(transaction, instance), is_large=True)

    async def workers(self) -> Sequence[WorkerRow]:
        """See `ports.leases`. Live workers come first, each group by its start."""
        boot, second = leases.boot_micros(self._clock)
        rows = [worker_row(row, boot, second) for row in self._rows(sql.WORKERS)]
        return sorted(rows, key=lambda row: not row.is_live)

    # -- condition -----------------------------------------------------------------------------------------------------

    async def condition(self) -> Condition:
        """See `ports.condition`. Off the event loop."""
        return await asyncio.to_thread(condition_of, self._durability, path=self._location.path)

    # -- how -----------------------------------------------------------------------------------------------------------

    def _write(self, operation: Operation[T], *, is_large: bool = False) -> Awaitable[T]:
        self._check_writable()
        return self._writer.run(operation, is_large=is_large)

    def _read(self, ask: Callable[[apsw.Connection], T]) -> T:
        self._check_process()
        return self._readers.read(ask)

    def _rows(self, statement: str, *values: object) -> Any:
        return self._read(lambda connection: fetch(connection, statement, values))

    def _link(self) -> Link:
        return Link(self._open_writable, Board(self._location.path), self._tell)

    def _open_writable(self) -> apsw.Connection:
        return open_writable(self._location.path, self._durability)

    def _check_writable(self) -> None:
        """Raises if the caller has borrowed the only write transaction: it would wait for itself."""
        self._check_process()
        held, lent = holding.get(), self._writer.lent
        if held is not None and lent is not None and lent.is_open and held.connection is lent.connection:
            raise NotAllowedHere(
                "this code holds the only write transaction of the store, so another write could never begin. Start "
                "runs with connection=…, and do everything else before or after the transaction."
            )

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise StoreRefused(
                f"the store {self.url} was opened by process {self._pid} and cannot be used in the forked child "
                f"{os.getpid()}: SQLite's locks are not inherited. Open it in the child only, or close it "
                "before the fork."
            )


def _is_large(commit: Commit) -> bool:
    """Whether the work is too large for an event loop, which it would block."""
    return bool(commit.blobs) or len(commit.children) > _MANY


def _let_go(location: Location, watched: tuple[int, int], pid: int) -> None:
    if os.getpid() == pid:
        audit.unwatch(watched)
        with suppress(OSError):
            discard(location)
