"""How soon news of other processes is taken up, where the store hears of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, cast

import pytest

from holdfast.client import waiters
from holdfast.client.waiters import Waiting
from holdfast.ports.store import OTHERS
from holdfast.worker import watch_loop
from holdfast.worker.watch_loop import Looks
from holdfast.worker.worker_options import WorkerOptions

AN_HOUR = timedelta(hours=1)


class Elsewhere:
    """A store in which only others write."""

    def __init__(self) -> None:
        self.writes = 0
        self.looks = 0
        self.listeners: list[Callable[[str], None]] = []

    def subscribe(self, listener: Callable[[str], None]) -> Callable[[], None]:
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    def changes(self) -> int:
        self.looks += 1
        return self.writes

    def written(self) -> None:
        self.writes += 1
        for listener in self.listeners:
            listener(OTHERS)


class Idle:
    """What the watch loop asks of a worker."""

    def __init__(self, store: Elsewhere) -> None:
        self.store = store
        self.work_hinted = asyncio.Event()
        self.options = WorkerOptions("w", is_configured=True, poll=AN_HOUR, look=AN_HOUR)


@asynccontextmanager
async def told_once(store: Elsewhere) -> AsyncIterator[Looks]:
    """An idle worker's looks, which have taken up the first news."""
    worker = Idle(store)
    looks = Looks(cast("Any", worker))
    comparison = asyncio.ensure_future(looks.comparison())
    await asyncio.sleep(0)
    store.written()
    looks.at_once()
    async with asyncio.timeout(30):
        await worker.work_hinted.wait()
    yield looks
    comparison.cancel()


async def test_a_worker_looks_when_it_is_told() -> None:
    """Promise: a run started in another process does not wait for an idle worker's next look."""
    async with told_once(Elsewhere()) as looks:
        pass
    looks.at_once()  # nobody looks now: the next comparison begins with it


async def test_a_worker_that_hears_much_looks_no_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: whatever others say, between two changes taken up there is the time there is without."""
    store = Elsewhere()
    async with told_once(store) as looks:
        monkeypatch.setattr(watch_loop, "FIRST_LOOK", 3600.0)
        seen = store.looks
        for _ in range(100):
            store.written()
            looks.at_once()
            await asyncio.sleep(0)
        assert store.looks <= seen + 1, "one was under way already"


class Seconds:
    """The timers of an event loop, fired by hand."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.pauses: list[float] = []
        self.fire: Callable[[], None] = lambda: None

    def time(self) -> float:
        return self.now

    def call_later(self, pause: float, look: Callable[..., None], is_due: asyncio.Future[None]) -> None:
        self.pauses.append(pause)
        self.fire = lambda: look(is_due)


def pauses_of(looks: Looks, loop: Seconds, seconds: float) -> list[float]:
    """The pauses between the looks of that time; each comparison that is due is made at once."""
    until, loop.pauses = loop.now + seconds, []
    while loop.now < until:
        is_due = asyncio.Future[None]()
        looks._compared_at, looks._has_news = loop.now, False
        loop.call_later(looks._pause, looks._look, is_due)
        while loop.now < until and not is_due.done():
            loop.now += loop.pauses[-1]
            loop.fire()
    return loop.pauses


async def test_an_idle_worker_looks_seldom_and_never_too_late() -> None:
    """Promise: eight looks a second while nothing happens, and a dozen more after a heartbeat; after any time of
    idleness, no run of another process waits longer than an eighth of a second for a look."""
    store, loop = Elsewhere(), Seconds()
    worker = Idle(store)
    worker.options = WorkerOptions("w", is_configured=True)
    looks = Looks(cast("Any", worker))
    looks._loop = cast("Any", loop)
    quiet = pauses_of(looks, loop, 60)
    store.writes += 1
    beaten = pauses_of(looks, loop, 5)
    assert store.looks > 8 * 60, "it never looked"
    assert min(beaten) == watch_loop.FIRST_LOOK
    assert max(quiet + beaten) <= 0.125
    assert len(quiet) <= 8 * 60 + 1
    assert len(beaten) <= 8 * 5 + 13


async def test_a_look_that_comes_with_the_end_of_the_watch_is_none() -> None:
    """Promise: a worker that stops while a look is about to begin stops without an error."""
    problems: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
    looks = Looks(cast("Any", Idle(Elsewhere())))
    comparison = asyncio.ensure_future(looks.comparison())
    await asyncio.sleep(0)
    looks._compared_at -= 2 * AN_HOUR.total_seconds()  # so that the look would ask for a comparison
    comparison.cancel()
    looks._timer._run()
    await asyncio.wait([comparison])
    assert problems == []


async def test_who_waits_for_a_run_looks_when_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: the end of a run that another process writes does not wait for the client's next look; told from
    another thread, as it is, and however often."""
    monkeypatch.setattr(waiters, "FIRST_LOOK", 3600.0)
    store = Elsewhere()
    waits = Waiting(cast("Any", store))
    async with asyncio.timeout(30):
        with waits.listen("r") as news:
            for _ in range(100):
                await asyncio.to_thread(store.written)
            await news.next(None)
    assert store.looks == 2, "one at the beginning, and one for all that was said"
    store.written()  # nobody waits
    waits.close()
    assert store.listeners == []
