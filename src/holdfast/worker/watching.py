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
FIRST_LOOK = 0.002
"""Seconds to the next look for changes of other processes right after one; `options.look` when all is quiet."""


async def watch_until_stopped(worker: Worker) -> None:
    """Hints for the claim loop, news for the sessions."""
    loop = asyncio.get_running_loop()
    poll, longest_look = worker.options.poll.total_seconds(), worker.options.look.total_seconds()
    compared_at = loop.time()
    seen = worker.store.changes()
    pause = longest_look
    has_news = False
    while not worker.is_stopped:
        await asyncio.sleep(pause)
        pause = min(pause * 1.25, longest_look)
        try:
            changes = worker.store.changes()
            if changes != seen:
                seen, pause, has_news = changes, FIRST_LOOK, True
                worker.work_hinted.set()
            since = loop.time() - compared_at
            if since >= poll or (has_news and since >= longest_look):
                compared_at, has_news = loop.time(), False
                await worker.engine.check_held(worker.options.instance)
        except StoreError as error:
            LOG.warning("held runs not compared, trying again: %s", error)
        except Exception:
            LOG.exception("watching broke, trying again")
