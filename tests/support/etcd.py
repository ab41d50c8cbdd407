"""The etcd of the tests: one per run, shared by its workers, a prefix for each test; and time that really passes."""

from __future__ import annotations

import os
import threading
import time
from datetime import UTC, datetime, timedelta
from itertools import count

from holdfast.adapters.etcd import EtcdGrants
from holdfast.adapters.leases import Endpoints
from holdfast.adapters.memory.clock import VirtualClock
from holdfast.ports.clock import Clock
from tests.support.shared_server import shared_port

_numbers = count(1)


class PassingClock(VirtualClock):
    """The host's clock, whose wall time can be put elsewhere; advancing it takes the time it says. For servers that no
    clock of ours moves."""

    def __init__(self) -> None:
        super().__init__(datetime.now(UTC))
        self._off = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self._off

    def boot(self) -> tuple[str, float]:
        return "this boot", time.monotonic()

    def advance(self, by: timedelta | float) -> None:
        threading.Event().wait(by.total_seconds() if isinstance(by, timedelta) else by)

    def set(self, at: datetime) -> None:
        self._off = at - datetime.now(UTC)


def endpoints() -> Endpoints:
    return Endpoints(addresses=(f"http://127.0.0.1:{shared_port('etcd')}",))


def new_prefix() -> str:
    return f"test-{os.getpid()}-{next(_numbers)}"


def new_grants(clock: Clock | None = None, *, prefix: str = "", ttl: timedelta = timedelta(seconds=3)) -> EtcdGrants:
    """A manager of its own on the server of this run."""
    return EtcdGrants(endpoints(), prefix=prefix or new_prefix(), ttl=ttl, clock=clock)
