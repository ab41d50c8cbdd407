"""The sweep loop: now and then one of the workers removes expired runs and unused blobs.

A duty in the store, which expires, decides which one. Each piece of a sweep prolongs it; a worker that lost the duty,
or is told to stop, leaves the rest to the next one.
"""

from __future__ import annotations

import asyncio
import random

from holdfast.errors import HoldfastError
from holdfast.ports import facts as t
from holdfast.ports.facts import Trouble
from holdfast.upkeep.sweep import DUTY, TTL, Swept, sweep
from holdfast.worker.seat import Seat

FIRST = 5
"""Factor by which the first sweep of a worker comes sooner than the others."""


async def sweep_until_stopped(worker: Seat) -> None:
    """Sweeps repeatedly, unless another worker is sweeping."""
    every = worker.options.sweep.total_seconds()
    pause = every / FIRST
    while not worker.is_stopping:
        await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # by chance, so that workers take turns
        pause = every
        try:
            await sweep_if_free(worker)
        except HoldfastError as error:
            worker.telemetry.tell(Trouble("sweeping failed, retrying in a few minutes", error))
        except Exception as error:  # noqa: BLE001 the loop must not end
            what = "sweeping failed unexpectedly, retrying in a few minutes"
            worker.telemetry.tell(Trouble(what, error, is_known=False, is_bug=True))


async def sweep_if_free(worker: Seat) -> Swept | None:
    """Sweeps; None if another worker is sweeping."""
    store, holder = worker.store, worker.options.instance

    async def goes_on() -> bool:
        return not worker.is_stopping and await store.take_duty(DUTY, holder=holder, ttl=TTL)

    if not await goes_on():
        return None
    try:
        swept = await sweep(store, worker.engine.settings.keep, worker.options.blob_grace, goes_on=goes_on)
    finally:
        await store.drop_duty(DUTY, holder=holder)
    removed, collected = swept.removed, swept.collected
    if removed.trees or collected.blobs:
        worker.telemetry.tell(t.Swept(worker.options.id, removed.runs, removed.rows, collected.blobs))
    return swept
