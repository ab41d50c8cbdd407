"""A disk that fails at the n-th call: an error or success, never wrong data, and afterwards everything goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.sqlite import open_sqlite
from holdfast.core import events as e
from holdfast.errors import DiskFull, StoreError
from holdfast.ports.journal import Committed
from holdfast.testing.conformance.world import START, World
from tests.lab.disk.files import Faults


@pytest.fixture
def faults() -> Iterator[Faults]:
    vfs = Faults()
    yield vfs
    vfs.unregister()


FAULTS = [
    pytest.param(verb, code, stays, id=f"{verb} {code.__name__}{' for good' if stays else ''}")
    for verb, code in (
        ("write", apsw.IOError),
        ("write", apsw.FullError),
        ("sync", apsw.IOError),
        ("read", apsw.IOError),
    )
    for stays in (False, True)
]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # apsw reports what a VFS method raised
@pytest.mark.parametrize(("verb", "code", "stays"), FAULTS)
@pytest.mark.parametrize("number", [1, 2, 3, 5])
async def test_a_failing_disk_never_gives_wrong_data(
    number: int, verb: str, code: type[apsw.Error], *, stays: bool, faults: Faults, path: Path
) -> None:
    """Contract: a turn is committed or refused with a store's error; what was committed is there, once, afterwards."""
    clock = VirtualClock(START)
    store = await open_sqlite(path, clock=clock)
    world = World(store, clock)
    holder = await world.held_run("order-1")
    await holder.commits(e.StepScheduled(key="step:0"))
    faults.arm(verb, number, code, stays=stays)
    turn = holder.turn(e.StepCompleted(key="step:0"))
    refusals: list[StoreError] = []
    for count in range(1, 6):
        try:
            verdict = await holder.submit(turn)
        except StoreError as error:
            refusals.append(error)
        else:
            assert isinstance(verdict, Committed)
            turn = holder.turn(e.StepScheduled(key=f"step:{count}"))
    assert all(isinstance(error, DiskFull) == (code is apsw.FullError) for error in refusals)
    assert len(refusals) <= faults.hits
    faults.disarm()
    assert isinstance(await holder.submit(turn), Committed)
    await world.verify()
    await store.close()
    again = World(await open_sqlite(path, clock=clock), clock)
    await again.verify()
    assert (await again.get("order-1")).next_ordinal == holder.run.ordinal + 1
    await again.store.close()
