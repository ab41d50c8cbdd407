"""What holds for every lease manager that is a server of its own."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import App
from holdfast.config import Configuration, LeaseSettings
from holdfast.extras import install_command
from holdfast.ports.grants import Grant, OwnedBy
from tests.integration.test_etcd import work
from tests.support.etcd import new_prefix
from tests.support.managers import KINDS, SERVERS, TTL, Kind, leases_of, refused

SCHEMES: dict[Kind, str] = {"etcd": "http", "nats": "nats"}

pytestmark = pytest.mark.parametrize("kind", KINDS)


async def test_an_endpoint_without_a_server_is_refused(kind: Kind) -> None:
    """Contract: with its address and the reason."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"{SCHEMES[kind]}://127.0.0.1:{taken.getsockname()[1]}"
        assert f"{address}: " in await refused(LeaseSettings(type=kind, endpoints=(address,), ttl=TTL))


async def test_an_address_with_a_password_is_refused_and_not_shown(kind: Kind) -> None:
    """Contract: secrets do not stand in addresses."""
    address = f"{SCHEMES[kind]}://me:hunter2@host:2379"
    told = await refused(LeaseSettings(type=kind, endpoints=(address,), ttl=TTL))
    assert "password_file" in told
    assert "hunter2" not in told


def test_a_missing_extra_names_what_to_install(kind: Kind) -> None:
    """Contract: before anything is opened, with the command that brings it."""
    missing, packages = {"etcd": ("grpc", "etcd need aetcd and grpcio"), "nats": ("nats", "NATS need nats-py")}[kind]
    code = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "import asyncio, datetime\n"
        "from holdfast.config import LeaseSettings\n"
        "from holdfast.stores import open_grants\n"
        f"try: asyncio.run(open_grants(LeaseSettings(type={kind!r}), datetime.timedelta(seconds=9)))\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.startswith(f"StoreRefused leases by {packages}")
    assert install_command(kind) in found.stdout


async def test_a_restarted_worker_gets_its_runs_back_at_once(kind: Kind) -> None:
    """Contract: its new instance takes over the grants of the earlier one, and they outlive it."""
    prefix = new_prefix()
    earlier, later = (SERVERS[kind].new_grants(prefix=prefix) for _ in range(2))
    first = await earlier.acquire("r", "w1", TTL)
    assert isinstance(first, Grant)
    again = await later.acquire("r", "w1", TTL)
    assert isinstance(again, Grant)
    assert again.acquired_at == first.acquired_at
    assert list(await earlier.release_all("w1")) == []
    assert isinstance(await earlier.acquire("r", "w2", TTL), OwnedBy)
    assert list(await later.release_all("w1")) == ["r"]
    await earlier.close()
    await later.close()


async def test_an_app_has_its_leases_from_the_manager(tmp_path: Path, kind: Kind) -> None:
    """Contract: one section of configuration; runs are granted there, and nothing is left when the worker stops."""
    given = leases_of(kind, new_prefix())
    app = App(f"sqlite:///{tmp_path / 'a.db'}", workflows=[work], config=Configuration(leases=given))
    looking = SERVERS[kind].new_grants(prefix=given.prefix)
    async with app.worker(id="w1"):
        assert [one.worker for one in await looking.workers()] == ["w1"]
        runs = [await app.start(work(number)) for number in range(20)]
        assert [await run.result("30s") for run in runs] == [number * 2 for number in range(20)]
    assert list(await looking.workers()) == []
    assert dict(await looking.holders()) == {}
    await looking.close()
