"""What a claim, an idle look and a place cost among many schedules and many keys of a limit, beside among few.

    python -m benchmarks.rules [--store sqlite] [--record]

The two are measured in turns, a round of each after the other, so that a busy moment of the machine meets both.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.places import STORES, Place, placed
from benchmarks.program import app_at, one
from benchmarks.rules_section import RESULTS, rendered
from benchmarks.section import measured_on, show_section
from holdfast.adapters.memory.clock import VirtualClock
from holdfast.core.limit import Demand, Rule
from holdfast.ports.leases import ClaimRequest, WorkerRow
from holdfast.ports.limits import PlaceAsk, PlaceMove
from holdfast.ports.store import Store
from holdfast.testing.conformance.world import Holder, World


class Sizes(NamedTuple):
    """How many of everything. `tries` are of one round."""

    few: int = 10
    schedules: int = 100_000
    keys: int = 10_000
    rounds: int = 60
    tries: int = 50
    pending: int = 5_000


MINE = Demand("customer", "mine", Rule(at_once=1))


class Bench:
    """One store, with few or with many rules."""

    def __init__(self, store: Store, holder: Holder) -> None:
        self._store = store
        self._holder = holder

    @classmethod
    async def on(cls, place: Place, name: str, schedules: int, keys: int, sizes: Sizes, stack: AsyncExitStack) -> Bench:
        """A store with that many schedules, keys, and runs to claim."""
        async with app_at(place.url(name)) as app:
            await app.start(one(0), id="pattern")
        place.multiply(name, sizes.pending)
        place.crowd(name, schedules, keys)
        store = (await (await stack.enter_async_context(app_at(place.url(name)))).client()).store
        world = World(store, VirtualClock(store.clock.now()))
        return cls(store, await world.held_run("limited"))

    async def claim(self) -> None:
        """A run that is due."""
        found = await self._store.claim(ClaimRequest(worker=self._worker("default"), limit=1, max_claims=5))
        assert len(found.runs) == 1

    async def idle(self) -> None:
        """What a worker with nothing to do asks: for due runs, for due schedules, for lines in which steps wait."""
        found = await self._store.claim(ClaimRequest(worker=self._worker("nothing"), limit=1, max_claims=5))
        assert not found.runs
        assert not (await self._store.due_schedules()).schedules
        assert not await self._store.tend_limits()

    async def place(self) -> None:
        """A step begins under the limit, and ends."""
        no, epoch = self._holder.no, self._holder.epoch
        answer = await self._store.move_places(PlaceMove(no=no, epoch=epoch, asks=(PlaceAsk("price", (MINE,)),)))
        assert answer.granted == ("price",)
        await self._store.move_places(PlaceMove(no=no, epoch=epoch, drops=("price",)))

    def _worker(self, queue: str) -> WorkerRow:
        return WorkerRow(
            instance="bench",
            worker="bench",
            queues=(queue,),
            definitions=((one.name, one.spec.version),),
            pid=0,
            host="",
            started_at=self._store.clock.now(),
        )


async def _timed(act: Callable[[], Awaitable[None]], tries: int) -> list[float]:
    taken: list[float] = []
    for _ in range(tries):
        began = time.perf_counter()
        await act()
        taken.append((time.perf_counter() - began) * 1e3)
    return taken


async def measured(place: Place, sizes: Sizes) -> dict[str, Any]:
    """Milliseconds among few and among many, of all rounds together, and how much more the latter are."""
    found: dict[str, Any] = {}
    async with AsyncExitStack() as stack:
        few = await Bench.on(place, "few", sizes.few, sizes.few, sizes, stack)
        many = await Bench.on(place, "many", sizes.schedules, sizes.keys, sizes, stack)
        for name in ("claim", "idle", "place"):
            times: dict[str, list[float]] = {"few": [], "many": []}
            for bench in (few, many):
                await _timed(getattr(bench, name), max(1, sizes.tries // 10))
            for _ in range(sizes.rounds):
                for which, bench in (("few", few), ("many", many)):
                    times[which] += await _timed(getattr(bench, name), sizes.tries)
            found[name] = {"p50": _compared(times, 0.5), "p99": _compared(times, 0.99)}
    return found


def _compared(times: dict[str, list[float]], part: float) -> dict[str, float]:
    few, many = (sorted(times[which])[int(len(times[which]) * part)] for which in ("few", "many"))
    return {"few": round(few, 3), "many": round(many, 3), "ratio": round(many / few, 3)}


async def all_of(stores: Sequence[str], sizes: Sizes) -> dict[str, Any]:
    """The results of these stores."""
    found: dict[str, Any] = {}
    for store in stores:
        with tempfile.TemporaryDirectory(prefix="holdfast-rules-") as folder, placed(store, Path(folder)) as place:
            found[store] = await measured(place, sizes)
    return found


async def measured_section(stores: Sequence[str]) -> dict[str, Any]:
    """Everything that the section tells."""
    return {**measured_on(Sizes()), "costs": await all_of(stores, Sizes())}


if __name__ == "__main__":
    show_section("rules", __doc__, STORES, measured_section, rendered, RESULTS)
