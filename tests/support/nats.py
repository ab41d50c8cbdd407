"""The NATS server of the tests: one per run, shared by its workers, a prefix for each test."""

from __future__ import annotations

from datetime import timedelta

from holdfast.adapters.leases import Endpoints
from holdfast.adapters.nats import NatsGrants
from holdfast.ports.clock import Clock
from tests.support.etcd import new_prefix
from tests.support.shared_server import shared_port

BUCKET = "tests"


def endpoints() -> Endpoints:
    return Endpoints(addresses=(f"nats://127.0.0.1:{shared_port('nats')}",))


def new_bucket() -> str:
    """A bucket of the test's own, for tests about buckets."""
    return new_prefix()


def new_grants(
    clock: Clock | None = None, *, prefix: str = "", bucket: str = BUCKET, ttl: timedelta = timedelta(seconds=3)
) -> NatsGrants:
    """A manager of its own on the server of this run."""
    return NatsGrants(endpoints(), bucket=bucket, prefix=prefix or new_prefix(), ttl=ttl, clock=clock)
