"""The memory store: every port over plain dicts under one lock. Nothing outlives the process.

No method awaits while it holds the lock, so any thread and any event loop may use one store. A call is one transaction;
listeners are told after the lock is released.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TypeAlias

from holdfast.adapters.memory import messages
from holdfast.adapters.memory.blob_store import Keeping
from holdfast.adapters.memory.condition import Examined
from holdfast.adapters.memory.leases import Leasing
from holdfast.adapters.memory.limits import Limiting
from holdfast.adapters.memory.overview import Looking
from holdfast.adapters.memory.queues import Queued
from holdfast.adapters.memory.run_list import cursor, matches, place, position
from holdfast.adapters.memory.schedules import Scheduled
from holdfast.adapters.memory.shared_transactions import Lending
from holdfast.adapters.memory.starts import create_run
from holdfast.adapters.memory.streams import Streaming
from holdfast.adapters.memory.turns import commit_turn
from holdfast.adapters.memory.updates import Asked
from holdfast.core.checksums import checked_shown
from holdfast.core.status import Status
from holdfast.core.turn import Row
from holdfast.ports.clock import Clock
from holdfast.ports.inbox import Delivery, Message, Publication, Unconsumed, Watcher
from holdfast.ports.journal import Commit, Tree, Verdict
from holdfast.ports.runs import Creation, Filter, Made, NewRun, Page, RunRow

__all__ = ["MemoryStore"]


UnreadOf: TypeAlias = Mapping[int, list[Unconsumed]]


class MemoryStore(Leasing, Keeping, Looking, Examined, Queued, Scheduled, Limiting, Streaming, Asked, Lending):
    """A `ports.store.Store` in memory."""

    @property
    def url(self) -> str:
        """The same for every memory store."""
        return "memory://"

    @property
    def clock(self) -> Clock:
        return self._clock

    def subscribe(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Calls the listener with hints after each write. Returns a function that unsubscribes."""
        with self._lock:
            self._listeners.append(listener)

        def unsubscribe() -> None:
            with self._lock, suppress(ValueError):
                self._listeners.remove(listener)

        return unsubscribe

    def changes(self) -> int:
        """Always 0: no other process writes to this store."""
        return 0

    async def close(self) -> None:
        """Forgets the listeners. The data stay as long as the store object."""
        with self._lock:
            self._listeners.clear()

    # -- journal -------------------------------------------------------------------------------------------------------

    async def commit(self, batch: Sequence[Commit]) -> Sequence[Verdict]:
        """See `ports.journal`."""
        with self._writing() as write:
            return [commit_turn(write, commit) for commit in batch]

    def commit_now(self, commit: Commit) -> Verdict | None:
        """See `ports.journal`."""
        with self._writing() as write:
            return commit_turn(write, commit)

    async def read(self, runs: Mapping[int, int]) -> Mapping[int, list[Row]]:
        """See `ports.journal`."""
        with self._lock:
            return {
                no: [row for row in self._tables.rows.get(no, []) if row.ordinal >= first] for no, first in runs.items()
            }

    async def history(self, run: str, *, after_seq: int = 0, limit: int = 1000) -> list[Row]:
        """See `ports.journal`."""
        with self._lock:
            return [row for row in self._tables.journal(run) if row.seq > after_seq][:limit]

    async def read_tree(self, root: str, *, from_seq: int = 0, limit: int = 1000) -> list[Row]:
        """See `ports.journal`."""
        with self._lock:
            rows = [row for no in self._tables.tree(root) for row in self._tables.rows[no] if row.seq >= from_seq]
        return sorted(rows, key=lambda row: row.seq)[:limit]

    async def last_seq(self, root: str) -> int | None:
        """See `ports.journal`."""
        with self._lock:
            return max((self._tables.rows[no][-1].seq for no in self._tables.tree(root)), default=None)

    async def trees(self, *, after: str = "", limit: int = 100) -> list[Tree]:
        """See `ports.journal`."""
        with self._lock:
            tables = self._tables
            open_runs = Counter(run.root for run in tables.runs.values() if not run.status.is_terminal)
            found: list[Tree] = []
            for root in sorted(root for root in open_runs if root > after)[:limit]:
                journals = [tables.rows[no] for no in tables.tree(root)]
                last = max(rows[-1].seq for rows in journals)
                found.append(Tree(root, last, sum(map(len, journals)), open_runs[root]))
            return found

    # -- runs ----------------------------------------------------------------------------------------------------------

    async def create(
        self, new: NewRun, *, key_since: datetime, instance: str = "", worker: str = "", first: Commit | None = None
    ) -> Creation:
        """See `ports.runs`."""
        with self._writing() as write:
            creation = create_run(write, new, key_since, instance, worker, first)
        if instance and isinstance(creation, Made) and creation.run.instance:
            self._claimers.count(instance, creation.run.workflow)
        return creation

    async def get(self, run: str) -> RunRow | None:
        """See `ports.runs`."""
        with self._lock:
            return self._tables.run(run)

    async def list(self, which: Filter, *, after: str = "", limit: int = 100) -> Page:
        """See `ports.runs`."""
        last, is_back = position(after) if after else None, which.is_oldest_first
        with self._lock:
            found = [run for run in self._tables.runs.values() if matches(run, which)]
        found.sort(key=place, reverse=not is_back)
        rest = [run for run in found if last is None or (place(run) > last if is_back else place(run) < last)]
        return Page(rest[:limit], cursor(rest[limit - 1]) if len(rest) > limit else "")

    async def count(self) -> dict[Status, int]:
        """See `ports.runs`."""
        counts = dict.fromkeys(Status, 0)
        with self._lock:
            for run in self._tables.runs.values():
                counts[run.status] += 1
        return counts

    async def exposed(self, run: str, name: str) -> tuple[bytes, str] | None:
        """See `ports.runs`."""
        with self._lock:
            shown = self._tables.exposed.get(self._tables.numbers.get(run, 0), {}).get(name)
        return None if shown is None else checked_shown(run, shown.name, shown.value, shown.blob, shown.checksum)

    async def exposures(self, run: str) -> Sequence[tuple[str, bytes, str]]:
        """See `ports.runs`; by name."""
        with self._lock:
            shown = self._tables.exposed.get(self._tables.numbers.get(run, 0), {})
            return [
                (x.name, *checked_shown(run, x.name, x.value, x.blob, x.checksum)) for _, x in sorted(shown.items())
            ]

    # -- inbox ---------------------------------------------------------------------------------------------------------

    async def send(self, message: Message) -> Delivery:
        """See `ports.inbox`."""
        with self._writing() as write:
            return messages.send(write, message)

    async def replace(self, message: Message, no: int) -> Delivery:
        """See `ports.inbox`."""
        with self._writing() as write:
            return messages.replace(write, message, no)

    async def publish(self, publication: Publication) -> Sequence[str]:
        """See `ports.inbox`."""
        with self._writing() as write:
            return messages.publish(write, publication)

    async def sent(self, run: str, id: str) -> Message | None:
        """See `ports.inbox`."""
        with self._lock:
            return messages.sent(self._tables, self._tables.numbers.get(run, 0), id)

    async def published(self, topic: str, id: str) -> Message | None:
        """See `ports.inbox`."""
        with self._lock:
            watching = self._tables.watching(topic)
            found = (messages.sent(self._tables, watch.no, f"{id}/{watch.key}") for watch in watching)
            return next((each for each in found if each is not None), None)

    async def watchers(self, topic: str) -> Sequence[Watcher]:
        """See `ports.inbox`; oldest first."""
        with self._lock:
            runs = self._tables.runs
            return [Watcher(runs[watch.no].id, watch.key, watch.since) for watch in self._tables.watching(topic)]

    async def unread(self, runs: Mapping[int, int]) -> UnreadOf:
        """See `ports.inbox`."""
        with self._lock:
            return {
                no: [
                    Unconsumed(letter.no, letter.id, letter.kind, letter.body, letter.checksum)
                    for letter in sorted(self._tables.inbox.get(no, {}).values(), key=lambda letter: letter.no)
                    if letter.no > seen and not letter.consumed_ordinal
                ]
                for no, seen in runs.items()
            }
