"""A worker without threads: its heartbeats are actors of the loop."""

from __future__ import annotations

import asyncio

from holdfast.worker.heartbeat import Heartbeat
from holdfast.worker.pulse import Pulse
from holdfast.worker.worker import Worker
from tests.lab.sim.loop import ACTOR, HEART, context_of


class PulseAtOnce(Pulse):
    """The heartbeat at the lease manager, without a thread."""

    def tell(self) -> None:
        self._beat()


class BeatingOnTheLoop(Heartbeat):
    """The heartbeat of a simulated worker: the same beats, as an actor of their own instead of a thread."""

    pulse = PulseAtOnce
    _timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._set(self.begin())

    def _set(self, pause: float) -> None:
        context = context_of(ACTOR.get() % HEART + HEART)
        self._timer = asyncio.get_running_loop().call_later(pause, self._go, context=context)

    def _go(self) -> None:
        self._set(self.beat())

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.end()

    def time(self) -> float:
        return asyncio.get_running_loop().time()

    def processor(self) -> float:
        return 0.0


class SimulatedWorker(Worker):
    """A worker without threads."""

    heartbeat = BeatingOnTheLoop
