"""Logs of standalone machines on any Holdfast store: `await machine.run(…, store=app.logs(), id="run-42")`.

Each log is a separate run in a queue that no worker serves. Its rows are values that the run exposes, journaled like
everything else and fenced by epoch. Clearing a log completes that run; a later log with the same id is a new run,
`run-42~2`.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.core import events as e
from holdfast.core.commands import carry
from holdfast.core.fold import fold
from holdfast.core.machine_history import LogRow, decode_log_row, encode_log_row
from holdfast.core.run import Run as Fold
from holdfast.core.turn import decode_rows
from holdfast.errors import Conflict, StoreUnavailable
from holdfast.ports.journal import Committed, Park, sole_verdict
from holdfast.ports.leases import Taken
from holdfast.ports.runs import RunRow
from holdfast.turn.commit import finish
from holdfast.turn.draft import Draft
from holdfast.turn.start import new_run

if TYPE_CHECKING:
    from holdfast.client.client import Client

WORKFLOW = "machine log"
QUEUE = "machine logs"
TRIES = 5


@dataclass(slots=True)
class _Life:
    """An open log."""

    id: str
    row: RunRow | None = None
    run: Fold | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class MachineLogs:
    """A three-method store over the store of an app."""

    def __init__(self, client: Callable[[], Awaitable[Client]]) -> None:
        self._client = client
        self._lives: dict[str, _Life] = {}

    async def append(self, run_id: str, row: LogRow) -> None:
        """Appends one turn to the log's run: durable, fenced, and refused if that row exists."""
        blobs: dict[str, bytes] = {}
        value, blob, refs = carry(encode_log_row(row), blobs)
        shown = e.Exposed(name=str(row.sequence), value=value, blob=blob, refs=refs)
        await self._write(run_id, shown, blobs, row.sequence)

    async def load(self, run_id: str) -> Sequence[LogRow]:
        """The rows of the log's current run."""
        client = await self._client()
        life = await self._find(client, run_id)
        shown = await client.store.exposures(life.id)
        blobs = await client.store.get_blobs([blob for _, _, blob in shown if blob])
        rows = [decode_log_row(blobs[blob] if blob else value, f"run {life.id}") for _, value, blob in shown]
        return sorted(rows, key=lambda row: row.sequence)

    async def clear(self, run_id: str) -> None:
        """Completes the log's run; its rows stay in the journal until retention removes them."""
        client = await self._client()
        life = await self._find(client, run_id)
        if await client.store.get(life.id) is not None:
            await self._write(run_id, e.Completed(), {}, None)
        self._lives.pop(run_id, None)

    async def _find(self, client: Client, run_id: str) -> _Life:
        """The log's run that has not ended; a new one if all have."""
        known = self._lives.get(run_id)
        if known is not None:
            row = await client.store.get(known.id)
            if row is None or not row.status.is_terminal:
                return known
        number = 1
        while True:
            named = run_id if number == 1 else f"{run_id}~{number}"
            row = await client.store.get(named)
            if row is not None and row.workflow != WORKFLOW:
                raise Conflict(
                    f"id {named!r} belongs to a run of workflow {row.workflow!r}; choose another for this log"
                )
            if row is None or not row.status.is_terminal:
                life = self._lives[run_id] = _Life(named)
                return life
            number += 1

    async def _write(
        self, run_id: str, event: e.Exposed | e.Completed, blobs: dict[str, bytes], at: int | None
    ) -> None:
        client = await self._client()
        for _ in range(TRIES):
            life = await self._find(client, run_id)
            async with life.lock:
                run, row = await self._hold(client, life)
                if at is not None and str(at) in run.exposed:
                    raise Conflict(f"run {run_id} has a row {at} already")
                now = max(client.store.clock.now(), run.updated_at or client.store.clock.now())
                begins: list[e.AnyEvent] = [] if run.started_at else [e.Claimed(worker="standalone")]
                draft = Draft(now, begins, [event], blobs=blobs)
                commit = finish(
                    run, row.no, row.epoch, draft, inbox_seen=row.inbox_last, is_consuming=False, park=Park(None)
                )
                verdict = sole_verdict(await client.store.commit([commit]))
                if isinstance(verdict, Committed):
                    return
                life.row = life.run = None  # another process has it: look again
        raise StoreUnavailable(f"log of run {run_id}: another process keeps taking it; is it running twice?")

    async def _hold(self, client: Client, life: _Life) -> tuple[Fold, RunRow]:
        """The fold of the log's run, held under our epoch."""
        if life.row is not None and life.run is not None:
            return life.run, life.row
        now = client.store.clock.now()
        new, _ = new_run(life.id, e.Started(workflow=WORKFLOW, queue=QUEUE), now)
        await client.store.create(new, key_since=now)
        taken = await client.store.take(life.id, instance=f"standalone-{secrets.token_hex(8)}", steal=True)
        if not isinstance(taken, Taken):
            raise Conflict(f"log {life.id}: its run has ended")
        stored = (await client.store.read({taken.run.no: 1}))[taken.run.no]
        life.row, life.run = taken.run, fold(life.id, decode_rows(stored))
        return life.run, life.row
