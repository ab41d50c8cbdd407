"""Streams in the simulation: a crash at every point, and stores that lose or double parts are found out."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.adapters.memory.store import MemoryStore
from holdfast.ports.parts import Appended, Appending, Flush, StoredParts
from tests.lab.sim.crash_points import CANONICAL, DUSK, SEED, crash_points, try_all
from tests.lab.sim.faults import Fault
from tests.lab.sim.world import World


def test_a_crash_at_every_point() -> None:
    """Promise: one worker dies before or after any call to the store; no part is lost, doubled or out of order, and a
    reader who was there all the time heard each once."""
    points = crash_points("stream")
    assert len(points) > 20
    tried, crashes, problems = try_all("stream", [[point] for point in points])
    assert problems == []
    assert tried == len(points)
    assert crashes >= tried


class Doubling(MemoryStore):
    """Does not recognise what it was sent before."""

    async def append(self, batch: Sequence[Flush]) -> Sequence[Appending]:
        with self._writing() as write:
            for x in batch:
                rows = write.tables.streams.setdefault(x.no, {}).setdefault(x.name, [])
                first = rows[-1].end if rows else 0
                written = (x.step, x.attempt, x.epoch, x.packed, x.checksum)
                rows.append(StoredParts(first, first + x.count, *written))
        return [Appended()] * len(batch)


class Losing(MemoryStore):
    """Says that it has written what it has not."""

    async def append(self, batch: Sequence[Flush]) -> Sequence[Appending]:
        await super().append(batch[:-1] if len(batch) > 1 or batch[0].first else batch)
        return [Appended()] * len(batch)


def problems_of(store: type[MemoryStore], faults: list[Fault]) -> list[str]:
    found = World(SEED, scenario=CANONICAL["stream"], faults=faults, dusk=DUSK, open_store=store).run()
    return [str(problem) for problem in found.problems]


def test_a_store_that_doubles_parts_is_found_out() -> None:
    """Promise: an append whose answer was lost is sent again, and must count once."""
    faults = ([Fault("write", number, "lose answer", 0.0)] for number in range(12))
    assert any("streams" in problem for each in faults for problem in problems_of(Doubling, each))


def test_a_store_that_loses_parts_is_found_out() -> None:
    assert any("streams" in problem for problem in problems_of(Losing, []))
