"""The claim loop: takes due runs in batches while slots are free, and sleeps until a hint or the next due time.

It begins with the runs of the worker's own earlier instance. Whatever grants the leases, the lease comes first: a run
is loaded only once it is ours.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING

from holdfast.errors import StoreError
from holdfast.ports.leases import Claims

if TYPE_CHECKING:
    from holdfast.worker.worker import Worker

LOG = logging.getLogger("holdfast.worker")
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0


async def claim_until_stopped(worker: Worker) -> None:
    """One claimer per worker. Passes follow each other without waiting while slots are free and work is left."""
    pause = FIRST_PAUSE
    while not worker.is_stopping:
        worker.work_hinted.clear()
        wait = worker.options.poll.total_seconds()
        limit = min(worker.free, worker.options.batch)
        worker.waits_for_slots = limit <= 0
        if limit > 0:
            try:
                claims = await _pass(worker, limit)
            except StoreError as error:
                LOG.warning("claiming not possible, trying again in %.1f s: %s", pause, error)
                worker.engine.doubt()
                await asyncio.sleep(pause * random.uniform(0.5, 1))
                pause = min(pause * 2, LONGEST_PAUSE)
                continue
            except Exception:
                LOG.exception("claiming broke, trying again in %.1f s", LONGEST_PAUSE)
                worker.engine.doubt()
                await asyncio.sleep(LONGEST_PAUSE)
                continue
            pause = FIRST_PAUSE
            if len(claims.runs) == limit or worker.own_runs:
                await asyncio.sleep(0)
                continue
            if claims.next_due is not None:
                due = (claims.next_due - worker.store.clock.now()).total_seconds()
                wait = min(wait, max(due, 0.001))
        await _hint_or(worker.work_hinted, wait)


async def _pass(worker: Worker, limit: int) -> Claims:
    """One claim: of the worker's own runs as long as there are any, then of whatever is due."""
    own, worker.own_runs = worker.own_runs[:limit], worker.own_runs[limit:]
    try:
        claims = await worker.claim(limit, own)
    except BaseException:
        worker.own_runs = [*own, *worker.own_runs]
        raise
    for run, why in claims.put_off:
        worker.met("missing definition", run, why)
    if claims.runs:
        await worker.engine.take_on(claims.runs)
    if own:
        taken = {run.id for run in claims.runs}
        await worker.recovered(own, taken)
    return claims


async def _hint_or(hint: asyncio.Event, seconds: float) -> None:
    if hint.is_set():
        return
    try:
        async with asyncio.timeout(seconds):
            await hint.wait()
    except TimeoutError:
        return
