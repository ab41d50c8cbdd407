"""What a worker is told of recovery reaches its heartbeat, and what it met reaches its row."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from holdfast import workflow
from holdfast.config import Configuration, RecoverySettings
from holdfast.core.recovery import decode_recovery
from holdfast.ports.leases import Beat, Heart
from tests.support.world import World, seconds


@workflow
async def quick() -> None: ...


def recovering(**settings: Any) -> Configuration:
    return Configuration(recovery=RecoverySettings(**settings))


@pytest.mark.spec("stepflow.C1")
async def test_a_worker_checks_as_often_and_frees_as_many_as_it_is_told(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise: `check_interval` and `max_claims_per_check` reach the heartbeat of a worker."""
    freeing: list[int] = []
    heart_of = world.store.heart

    def noting(instance: str, ttl: timedelta) -> Heart:
        heart = heart_of(instance, ttl)
        beat = heart.beat

        def noted(progress: str = "", *, frees: int = 0, **more: Any) -> Beat:
            freeing.append(frees)
            return beat(progress, frees=frees, **more)

        monkeypatch.setattr(heart, "beat", noted, raising=True)
        return heart

    monkeypatch.setattr(world.store, "heart", noting)
    app = world.app(quick, config=recovering(check_interval=seconds(0.02), max_claims_per_check=3))
    async with world.worker(app, ttl="1h"):  # a third of the lease is far away
        await world.until(lambda: freeing.count(3) > 1)
    assert set(freeing) == {0, 3}


@pytest.mark.spec("stepflow.R8")
async def test_what_recovery_met_is_told_with_the_next_heartbeat(world: World) -> None:
    """Promise: a worker's row says what its recovery met, without anybody asking the worker."""
    app = world.app(quick, config=recovering(check_interval=seconds(0.02)))

    async def is_told() -> bool:
        (row,) = await world.store.workers()
        return decode_recovery(row.recovery).count("failed") == 1

    async with world.worker(app) as worker:
        worker.met("failed", "r", "its row is odd")
        await world.until(is_told)
