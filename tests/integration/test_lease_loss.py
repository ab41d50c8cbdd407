"""What workers do while a lease manager does not answer, on real servers: as `on_loss` says."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Literal

import pytest

from holdfast import App
from holdfast.config import Configuration, LeaseSettings
from tests.integration.test_etcd import work
from tests.support.etcd_guard import EtcdServer
from tests.support.managers import KINDS, Kind
from tests.support.nats_guard import NatsServer


@pytest.mark.parametrize("on_loss", ["store", "stop"])
@pytest.mark.parametrize("kind", KINDS)
async def test_workers_do_as_told_while_the_manager_is_away(
    tmp_path: Path, kind: Kind, on_loss: Literal["store", "stop"]
) -> None:
    """Contract: by the store's leases new runs begin; or they wait until the manager answers. Either way all of them
    end, and the worker needs no restart."""
    server = (EtcdServer if kind == "etcd" else NatsServer)(tmp_path)
    server.start()
    try:
        leases = LeaseSettings(type=kind, endpoints=(server.address,), ttl=timedelta(seconds=3), on_loss=on_loss)
        app = App(f"sqlite:///{tmp_path / 'a.db'}", workflows=[work], config=Configuration(leases=leases))
        async with asyncio.timeout(90), app.worker(id="w1", grace="1s"):
            assert await (await app.start(work(1))).result() == 2
            server.stop()
            run = await app.start(work(2))
            if on_loss == "store":
                assert await run.result() == 4
            else:
                with pytest.raises(TimeoutError):
                    await run.result("3s")
                assert (await run.view()).status.value == "pending"
            server.start()
            assert await run.result() == 4
            assert await (await app.start(work(3))).result() == 6
    finally:
        if server.process is not None:
            server.stop()
