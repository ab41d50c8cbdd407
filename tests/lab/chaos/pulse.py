"""A schedule with a slot every second, beside the other work: what it has to start is counted by arithmetic."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from holdfast import App, Schedule
from holdfast.core.schedule import ScheduleState
from holdfast.schedules.book import state_of
from tests.lab.chaos import work
from tests.lab.chaos.nursery import PATIENCE

NAME = "pulse"


def slots(after: datetime, until: datetime) -> list[str]:
    """The runs of the seconds after one instant, up to another."""
    seconds = range(int(after.timestamp()) + 1, int(until.timestamp()) + 1)
    return [f"{NAME}@{datetime.fromtimestamp(second, UTC).isoformat()}" for second in seconds]


class Pulse:
    """Made by the driver; the workers decide its slots, whoever has the duty. `insist` asks the store until it
    answers."""

    def __init__(self, app: App, insist: Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]) -> None:
        self._app = app
        self._insist = insist
        self._begun: datetime | None = None

    async def begin(self) -> None:
        """Every second from now on."""
        each = Schedule(NAME, work.beat(), every="1s", overlap="allow", missed="all", catch_up="1h")
        await self._insist(lambda: self._app.schedule(each))
        self._begun = (await self._state()).made_at

    async def end(self) -> list[str]:
        """Pauses it once all that is due is decided. The runs that there have to be, and no others."""
        assert self._begun is not None
        handle = await self._insist(lambda: self._app.get_schedule(NAME))
        due = (await self._app.client()).store.clock.now()
        limit = time.monotonic() + PATIENCE
        while (await self._state()).cursor < due.replace(microsecond=0):
            if time.monotonic() > limit:
                raise TimeoutError(f"the slots of {NAME} are not decided")
            await asyncio.sleep(0.05)
        await self._insist(handle.pause)
        return slots(self._begun, (await self._state()).cursor)

    async def finish(self, runs: list[str], resume: Callable[[], Awaitable[None]]) -> None:
        """Waits for the end of these runs, if they ever end."""
        limit, wanted = time.monotonic() + PATIENCE, set(runs)
        while time.monotonic() < limit:
            ended = {view.id async for view in self._app.runs(workflow=work.beat.name) if view.status.is_terminal}
            if wanted <= ended:
                return
            await resume()
            await asyncio.sleep(0.1)

    async def _state(self) -> ScheduleState:
        store = (await self._app.client()).store
        stored = await self._insist(lambda: store.schedule(NAME))
        return state_of(stored)
