"""Lease managers of the tests by the name of their kind: what holds for each of them is tested once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Final, Literal, TypeAlias

import pytest

from holdfast.adapters.etcd import connection as etcd_connection
from holdfast.adapters.leases.endpoints import LEAST_PATIENCE
from holdfast.config import LeaseSettings
from holdfast.errors import HoldfastError, InvalidConfig, StoreRefused
from holdfast.stores import open_grants
from tests.support import etcd, nats

Kind: TypeAlias = Literal["etcd", "nats"]
KINDS: Final[tuple[Kind, ...]] = ("etcd", "nats")
TTL: Final = timedelta(seconds=3)
SERVERS: Final[dict[Kind, ModuleType]] = {"etcd": etcd, "nats": nats}
"""Where each kind makes its managers: `new_grants`, `endpoints`."""

CERTIFICATE, PRIVATE_KEY = (str(Path(__file__).with_name("tls") / name) for name in ("cert.pem", "key.pem"))
"""A certificate of 127.0.0.1 that is its own authority, good for servers and clients, until 2126."""


def leases_of(kind: Kind, prefix: str) -> LeaseSettings:
    """The configuration of a manager on the server of this run."""
    addresses = SERVERS[kind].endpoints().addresses
    if kind == "etcd":
        return LeaseSettings(type="etcd", endpoints=addresses, ttl=TTL, prefix=prefix)
    return LeaseSettings(type="nats", endpoints=addresses, ttl=TTL, prefix=prefix, bucket=nats.BUCKET)


async def refused(given: LeaseSettings) -> str:
    """Why a worker with such leases does not start; within seconds. etcd is given up as soon as NATS is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(etcd_connection, "MOST_PATIENCE", LEAST_PATIENCE)
        async with asyncio.timeout(20):
            with pytest.raises(HoldfastError) as error:
                await own(given)
    assert isinstance(error.value, StoreRefused | InvalidConfig)
    return str(error.value)


async def own(given: LeaseSettings) -> None:
    """Opens the manager as the first worker of a store does."""
    grants = await open_grants(given, TTL)
    assert grants is not None
    try:
        await grants.own(1)
    finally:
        await grants.close()


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Waits for what another process does."""
    async with asyncio.timeout(30):
        while not await holds():  # noqa: ASYNC110 - what another process does
            await asyncio.sleep(0.02)
