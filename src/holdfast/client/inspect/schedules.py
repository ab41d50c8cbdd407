"""Problems with the schedules of a store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

from holdfast.client.client import Client
from holdfast.client.inspect.finding import Finding, first_of
from holdfast.core.declaration import is_declared
from holdfast.core.durations import format_duration
from holdfast.errors import CorruptJournal
from holdfast.ports.leases import WorkerRow
from holdfast.ports.schedules import StoredSchedule
from holdfast.schedules.book import state_of

LATE = timedelta(minutes=1)
PAGE = 100


async def schedule_findings(client: Client, workers: Sequence[WorkerRow]) -> AsyncIterator[Finding]:
    """Schedules that no live worker declares, that are late, or that cannot be read; then how many there are."""
    live = {worker.instance for worker in workers if worker.is_live}
    count = paused = 0
    odd: list[Finding] = []
    after = ""
    while page := await client.store.schedules(after=after, limit=PAGE):
        after = page[-1].name
        for stored in page:
            count += 1
            try:
                state = state_of(stored)
            except CorruptJournal as error:
                odd.append(Finding("schedules", "problem", str(error)))
                continue
            paused += state.paused is not None
            if not is_declared(state, live):
                text = "no live worker declares it. Remove it (holdfast schedules remove), or start one"
                odd.append(Finding("schedules", "warning", f"{stored.name}: {text}"))
            elif late := _late(client, stored):
                odd.append(Finding("schedules", "warning", f"{stored.name}: {late}"))
    for finding in first_of(odd):
        yield finding
    if count:
        yield Finding("schedules", "ok", f"{count}, {paused} paused")


def _late(client: Client, stored: StoredSchedule) -> str:
    late = timedelta(0) if stored.next_at is None else client.store.clock.now() - stored.next_at
    return f"due for {format_duration(late)}, but no worker has started it" if late > LATE else ""
