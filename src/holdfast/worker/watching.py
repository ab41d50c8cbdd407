"""The watch loop: notices what other processes wrote, and compares what we hold with what the store says.

Looking for changes is cheap and often; the comparison runs after a change and once per poll, which is the truth.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from holdfast.errors import StoreError

if TYPE_CHECKING:
    from holdfast.worker.worker import Worker

LOG = logging.getLogger("holdfast.worker")
LOOK = 0.05
"""Seconds between two looks for changes of other processes."""


async def watch_until_stopped(worker: Worker) -> None:
    """Hints for the claim loop, news for the sessions."""
    loop = asyncio.get_running_loop()
    poll = worker.options.poll.total_seconds()
    compared_at = loop.time()
    seen = worker.store.changes()
    while not worker.is_stopped:
        await asyncio.sleep(LOOK)
        try:
            changes = worker.store.changes()
            if changes != seen:
                worker.work_hinted.set()
            if changes != seen or loop.time() - compared_at >= poll:
                compared_at, seen = loop.time(), changes
                await worker.engine.check_held(worker.options.instance)
        except StoreError as error:
            LOG.warning("held runs not compared, trying again: %s", error)
