"""The loop of rules: five times per sweep it checks whether the workers whose rules apply are still there."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection

from holdfast.errors import HoldfastError
from holdfast.ports.facts import Trouble
from holdfast.queues.rulebook import settle_queues
from holdfast.upkeep.limit_book import settle_limits
from holdfast.worker.seat import Seat


async def settle_until_stopped(worker: Seat, limits: Collection[str]) -> None:
    """Checks repeatedly, as long as the worker takes work; never if it declares no queue and no limit."""
    look = worker.options.sweep.total_seconds() / 5
    while (worker.queues or limits) and not worker.is_stopping:
        await asyncio.sleep(look * random.uniform(0.9, 1.1))
        try:
            if worker.queues:
                await settle_queues(worker.store, worker.queues)
            if limits:
                await settle_limits(worker.store, limits)
        except HoldfastError as error:
            worker.telemetry.tell(Trouble(f"looking at queues and limits failed, retrying in {look:.0f} s", error))
