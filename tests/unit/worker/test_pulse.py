"""The heartbeat at the lease manager waits for nobody, and nobody waits for it."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

from holdfast.adapters.telemetry.logs import logged
from holdfast.ports.leases import Beat
from holdfast.worker.heartbeat import Heartbeat
from holdfast.worker.pulse import Pulse

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PATIENCE = 60.0


class Silent:
    """A lease manager that answers no heartbeat until it is let go."""

    def __init__(self) -> None:
        self.beats = 0
        self.asked = threading.Semaphore(0)
        self.leave = threading.Event()

    def beat(self) -> None:
        """Hangs."""
        self.beats += 1
        self.asked.release()
        assert self.leave.wait(PATIENCE)


class StoreHeart:
    """A heart that counts."""

    beats = 0

    def beat(self, progress: str = "", *, recovery: str = "", frees: int = 100, takes_back: bool = True) -> Beat:
        """Is heard."""
        self.beats += 1
        return Beat(NOW, False, 0)

    def close(self) -> None:
        """Nothing to give back."""


def test_a_manager_that_does_not_answer_costs_no_heartbeat_of_the_store() -> None:
    """Promise: the lease of the store is kept by a thread that waits for no lease manager."""
    manager, heart = Silent(), StoreHeart()
    pulse = Pulse(manager.beat)
    heartbeat = Heartbeat(heart, timedelta(seconds=15), str, lambda _: None, also=pulse.tell, tell=logged().tell)
    heartbeat.begin()
    heartbeat.beat()
    assert manager.asked.acquire(timeout=PATIENCE)
    for _ in range(4):
        heartbeat.beat()
    assert (heart.beats, manager.beats) == (5, 1)
    manager.leave.set()
    assert manager.asked.acquire(timeout=PATIENCE)  # what it was told meanwhile is one beat more
    pulse.stop()
    assert manager.beats == 2


def test_a_pulse_that_was_never_told_has_nothing_to_stop() -> None:
    """Promise: a worker that ends before its first heartbeat ends."""
    manager = Silent()
    Pulse(manager.beat).stop()
    assert manager.beats == 0
