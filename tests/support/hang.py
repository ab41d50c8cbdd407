"""A body that lasts until it is asked to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def hang(entered: asyncio.Event, stopped: Callable[[], object]) -> None:
    """Sets `entered`, waits, and calls `stopped` when it is cancelled."""
    entered.set()
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        stopped()
        raise
