"""Grants in memory: what only they can be asked, since nothing looks but the test."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.memory.grants import MemoryGrants

TTL = timedelta(seconds=15)


@pytest.mark.spec("stepflow.L9", "traps.A7")
async def test_a_late_heartbeat_brings_nothing_back_that_was_not_looked_at() -> None:
    """Promise: a grant that ran out is gone, whether or not anything has looked at it since."""
    clock = VirtualClock(datetime(2026, 1, 1, tzinfo=UTC))
    grants = MemoryGrants(clock)
    await grants.acquire("r", "w1", TTL)
    grants.heartbeat("w1", TTL)
    clock.advance(TTL)
    grants.heartbeat("w1", TTL)
    assert await grants.get("r") is None
