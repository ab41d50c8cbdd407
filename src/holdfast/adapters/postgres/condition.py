"""The condition of a PostgreSQL store, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.adapters.postgres import statements as sql
from holdfast.adapters.postgres.access import Access
from holdfast.adapters.postgres.link import LONG, Link
from holdfast.adapters.sql.rows import backlog_row
from holdfast.adapters.sql.run_list import PIECE, damaged_of
from holdfast.core.plurals import counted
from holdfast.core.turn import micros
from holdfast.ports.condition import Backlog, Condition
from holdfast.ports.runs import RunRow


class Examined(Access):
    """The part of a PostgreSQL store that reports damaged rows and waiting writers."""

    async def condition(self) -> Condition:
        """See `ports.condition`."""
        return await self._run(_condition)

    async def backlog(self) -> Sequence[Backlog]:
        """See `ports.condition`."""
        return [backlog_row(row) for row in await self._keep(sql.BACKLOG, micros(self._moments.clock.now()))]

    async def damaged(self, *, limit: int) -> Sequence[RunRow]:
        """See `ports.condition`."""
        return await self._run(lambda link: _damaged(link, limit))


def _condition(link: Link) -> Condition:
    """The server's settings, and what a crash of the server can lose. A commit that the server does not keep is worth
    nothing."""
    ((version, fsync, synchronous),) = link.ask(sql.SERVER)
    faults: list[str] = []
    if fsync != "on":
        faults.append("fsync is off: a crash of the server's host can corrupt the store")
    if synchronous == "off":
        faults.append("synchronous_commit is off: a crash of the server can take the last commits")
    words = "limited: see the faults" if faults else f"full: synchronous_commit is {synchronous}"
    return Condition(
        engine=f"PostgreSQL {version}", durability=words, faults=tuple(faults), warnings=tuple(_contention(link))
    )


def _contention(link: Link) -> Iterator[str]:
    """Writes that wait for each other, or for a session that left its transaction open."""
    ((count, seconds, blocker, known),) = link.ask(sql.WAITING)
    if count:
        sessions = counted(count, "session")
        waits = "waits" if count == 1 else "wait"
        by = f", blocked by process {blocker} ({known.strip(', ')})" if blocker else ""
        yield (
            f"{sessions} of this database {waits} for a lock, the longest for {seconds:.0f} s{by}. If that one left a "
            "transaction open, end it: SELECT pg_terminate_backend(pid)"
        )


def _damaged(link: Link, limit: int) -> list[RunRow]:
    """The first open runs whose row cannot be read in full."""
    return damaged_of(lambda no: link.ask(sql.OPEN_RUNS, (no, PIECE), patience=LONG), limit)
