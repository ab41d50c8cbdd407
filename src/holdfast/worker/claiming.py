"""The claim loop: takes due runs in batches while slots are free, and sleeps until a hint or the next due time."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING

from holdfast.errors import StoreError

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
                claims = await worker.store.claim(worker.row, limit=limit, max_claims=worker.engine.settings.max_claims)
                if claims.runs:
                    await worker.engine.take_on(claims.runs)
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
            if len(claims.runs) == limit:
                await asyncio.sleep(0)
                continue
            if claims.next_due is not None:
                due = (claims.next_due - worker.store.clock.now()).total_seconds()
                wait = min(wait, max(due, 0.001))
        await _hint_or(worker.work_hinted, wait)


async def _hint_or(hint: asyncio.Event, seconds: float) -> None:
    if hint.is_set():
        return
    try:
        async with asyncio.timeout(seconds):
            await hint.wait()
    except TimeoutError:
        return
