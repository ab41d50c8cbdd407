"""Connections to NATS, before any server is asked."""

from __future__ import annotations

import ssl
from datetime import timedelta

import pytest

from holdfast.adapters.leases import Endpoints
from holdfast.adapters.nats import NatsGrants
from tests.support.managers import CERTIFICATE


@pytest.mark.parametrize(
    ("address", "ca", "times"),
    [("nats://one", "", 0), ("tls://one", "", 1), ("nats://one", CERTIFICATE, 1)],
)
async def test_certificates_are_read_once_and_only_for_tls(
    address: str, ca: str, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise: a worker that speaks no TLS starts without reading the certificates of all authorities, which takes
    longer than the rest of its start; one that does reads them once, for both of its connections."""
    made: list[str | None] = []
    original = ssl.create_default_context

    def counted(cafile: str | None = None) -> ssl.SSLContext:
        made.append(cafile)
        return original(cafile=CERTIFICATE)

    monkeypatch.setattr(ssl, "create_default_context", counted)
    grants = NatsGrants(Endpoints(addresses=(address,), ca=ca), ttl=timedelta(seconds=3))
    await grants.close()
    assert made == [ca or None] * times
