"""How workers reach etcd and NATS: several endpoints, certificates on both sides, and a heartbeat that a busy event
loop does not hold up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from holdfast import App, current, step, workflow
from holdfast.config import Configuration, LeaseSettings
from holdfast.ports.grants import Grant
from holdfast.stores import open_grants
from tests.integration.test_etcd import work
from tests.support import etcd
from tests.support.etcd_guard import EtcdServer
from tests.support.guard import free_port
from tests.support.managers import CERTIFICATE, KINDS, PRIVATE_KEY, TTL, Kind, leases_of, refused
from tests.support.nats_guard import NatsServer


@asynccontextmanager
async def certified(folder: Path, kind: Kind) -> AsyncIterator[str]:
    """A server that shows a certificate, and wants one of its clients; its address."""
    if kind == "etcd":
        asked = [f"--cert-file={CERTIFICATE}", f"--key-file={PRIVATE_KEY}", f"--trusted-ca-file={CERTIFICATE}"]
        server: EtcdServer | NatsServer = EtcdServer(folder, scheme="https", options=[*asked, "--client-cert-auth"])
    else:
        tls = {"cert_file": CERTIFICATE, "key_file": PRIVATE_KEY, "ca_file": CERTIFICATE, "verify": True}
        server = NatsServer(folder, options={"tls": tls})
    server.start()
    try:
        yield server.address.replace("nats:", "tls:")
    finally:
        server.stop()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_that_wants_a_certificate_gets_ours(tmp_path: Path, kind: Kind) -> None:
    """Contract: with `certificate` and `private_key` it works; without them the error says that TLS failed."""
    async with certified(tmp_path, kind) as address:
        without = LeaseSettings(type=kind, endpoints=(address,), ttl=TTL, ca=CERTIFICATE)
        given = msgspec.structs.replace(without, certificate=CERTIFICATE, private_key=PRIVATE_KEY)
        grants = await open_grants(given, TTL)
        assert grants is not None
        assert isinstance(await grants.acquire("r", "w1", TTL), Grant)
        await grants.close()
        assert "TLS" in await refused(without)


@pytest.mark.parametrize("kind", KINDS)
async def test_the_next_endpoint_is_asked_if_the_first_does_not_answer(tmp_path: Path, kind: Kind) -> None:
    """Contract: one that answers is enough, whichever stands first."""
    given = leases_of(kind, etcd.new_prefix())
    scheme = "http" if kind == "etcd" else "nats"
    dead = [f"{scheme}://127.0.0.1:{free_port()}" for _ in range(2)]
    leases = LeaseSettings(
        type=kind, endpoints=(*dead, *given.endpoints), ttl=TTL, prefix=given.prefix, bucket=given.bucket
    )
    app = App(f"sqlite:///{tmp_path / 'a.db'}", workflows=[work], config=Configuration(leases=leases))
    async with app.worker(id="w1"):
        assert await (await app.start(work(1))).result("30s") == 2


@pytest.mark.parametrize("kind", KINDS)
async def test_a_blocked_event_loop_costs_no_grant(tmp_path: Path, kind: Kind) -> None:
    """Promise: a body keeps the loop of its worker from turning for longer than the lease; the heartbeat has a thread
    of its own, so the grant holds all the time, and is the same one."""
    leases = leases_of(kind, etcd.new_prefix())
    looking = await open_grants(leases, TTL)
    assert looking is not None
    seen: list[Grant | None] = []

    @step
    async def blocks() -> int:
        run = current().run_id
        seen.append(await looking.get(run))
        threading.Event().wait(TTL.total_seconds() * 1.5)
        seen.append(await looking.get(run))
        return current().attempt

    @workflow
    async def busy() -> int:
        return await blocks()

    app = App(f"sqlite:///{tmp_path / 'a.db'}", workflows=[busy], config=Configuration(leases=leases))
    async with asyncio.timeout(60), app.worker(id="w1"):
        assert await (await app.start(busy())).result() == 1
    before, after = seen
    assert before is not None
    assert after is not None
    assert (after.worker, after.acquired_at) == ("w1", before.acquired_at)
    assert after.expires_at > before.expires_at
    await looking.close()
