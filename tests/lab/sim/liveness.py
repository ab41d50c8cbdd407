"""Once the faults have stopped everything must move, and in time: L1 to L5, looked at every moment until the end."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from holdfast.core.status import Status
from holdfast.ports.runs import RunRow
from tests.lab.sim.places import is_held_back

if TYPE_CHECKING:
    from tests.lab.sim.world import Process, World

SETTLE = 4.0
"""Seconds that pauses and answers from before may still take: the longest is 2 s, twice."""

PATIENCE = 240.0
"""Virtual seconds in which every run must have ended."""

STEP = 0.25


def has_room(process: Process) -> bool:
    """Whether it would take a run. One that was asked to end, and waits for its bodies, takes none any more."""
    return process.ended is None and not process.worker.is_stopping and process.worker.free > 0


class Liveness:
    """Looks at one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._busy_at = 0.0
        """When no worker had room, as far as was seen; or faults still came. Nobody is late before."""
        self._held_back_at: dict[str, float] = {}
        """When each run was last seen to wait for a place of its queue, or for the worker that has its grant."""

    async def demand(self, acting: list[asyncio.Task[None]]) -> None:
        """Waits for the end of every run, and says what stood still on the way."""
        world = self._world
        began = self._busy_at = world.loop.time()
        resumed_at = 0.0
        while True:
            now = world.loop.time()
            if not any(has_room(process) for process in world.processes.values()):
                self._busy_at = now
            if now - resumed_at > 2.0:
                resumed_at = now
                await world.clients.resume_paused()
            rows = [row for row in [await world.store.get(name) for name in world.watch.runs] if row is not None]
            open_runs = [row for row in rows if not row.status.is_terminal]
            left, late = await world.watch.slots.unfinished(now - began)
            if not open_runs and not left and all(task.done() for task in acting):
                return
            for problem in late:
                world.watch.wrong("L3", "none", problem)
            if now - began > SETTLE:
                for promise, row, problem in self._standing(open_runs):
                    world.watch.wrong(promise, row.id, problem)
            if now - began > PATIENCE:
                names = ", ".join([*(f"{row.id} {row.status} {row.doing!r}" for row in open_runs), *left])
                world.watch.wrong("L", names or "none", f"not at the end {PATIENCE:.0f} s after the faults stopped")
            if world.watch.problems:
                return
            await asyncio.sleep(STEP)

    def _standing(self, rows: list[RunRow]) -> Iterator[tuple[str, RunRow, str]]:
        """What does not move although it could."""
        from tests.lab.sim.world import POLL, TTL

        world = self._world
        now, uptime = world.store.clock.now(), world.loop.time()
        live = [process for process in world.processes.values() if process.ended is None]
        instances = {process.worker.options.instance: process for process in live}
        on_trial = {row.instance for row in rows if row.suspicion.is_suspect}
        is_free = uptime - self._busy_at > POLL + 1
        late = timedelta(seconds=POLL + 1)
        owned = TTL * (3 if world.grants is not None else 1)  # a lease manager has to let go of it as well
        for process in live:
            if not process.worker.is_stopping and any(task.done() for task in process.worker._tasks[:3]):
                world.watch.wrong("L8", process.id, "one of its loops has ended, and it goes on without")
        for row in rows:
            if row.status is Status.PAUSED:
                continue
            is_tried_later = row.suspicion.is_suspect and instances.keys() <= on_trial
            is_due = not row.instance and row.available_at is not None and not is_tried_later
            if is_held_back(world.scenario, row, rows):
                self._held_back_at[row.id] = uptime
            waited = timedelta(seconds=uptime - self._held_back_at.get(row.id, -PATIENCE))
            if is_due and is_free and row.available_at and self._is_left(min(now - row.available_at, waited)):
                yield "L1", row, f"is due since {row.available_at}, and nobody claims it at {now}"
            if row.instance and row.instance not in instances:
                ended = self._ended(row.instance)
                if ended is not None and uptime - ended > TTL + POLL + 2 + TTL:
                    yield "L2", row, f"is held by {row.instance}, which ended {uptime - ended:.1f} s ago"
            known = world.watch.runs[row.id]
            grace = known.fold.grace_until
            if grace is not None and is_free and now - grace > late + timedelta(seconds=TTL):
                yield "L12", row, f"its clean-up was to end by {grace}, and has not at {now}"
            for wait in known.fold.waits.values():
                if (
                    wait.kind == "sleep"
                    and wait.until is not None
                    and uptime - self._busy_at > POLL + 1 + owned
                    and now - wait.until > late + timedelta(seconds=owned)
                ):
                    yield "L3", row, f"its timer {wait.key} is due since {wait.until}, now {now}"

    def _is_left(self, due_for: timedelta) -> bool:
        """Whether a run that is due for so long is left lying: somebody who had room for it did not take it, or nobody
        asks for runs at all. (A slot that happens to be free while a backlog is worked off is no room.)"""
        from tests.lab.sim.world import POLL

        watch, uptime = self._world.watch, self._world.loop.time()
        due_at = uptime - due_for.total_seconds()
        return due_for.total_seconds() > POLL + 1 and (
            watch.had_room_at > due_at + POLL + 1 or uptime - watch.asked_at > POLL + 1
        )

    def _ended(self, instance: str) -> float | None:
        for process in self._world.processes.values():
            if process.worker.options.instance == instance:
                return process.ended
        return None
