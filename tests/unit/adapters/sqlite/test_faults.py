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
from holdfast.ports.transactions import RolledBack
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


@pytest.mark.slow
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


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("verb", "code"), [("write", apsw.IOError), ("write", apsw.FullError), ("sync", apsw.IOError)])
@pytest.mark.parametrize("number", [1, 2, 3, 5])
async def test_a_lent_transaction_on_a_failing_disk_is_there_whole_or_not_at_all(
    number: int, verb: str, code: type[apsw.Error], faults: Faults, path: Path
) -> None:
    """Contract: committed or rolled back, as the store says, and the run made within it says the same."""
    clock = VirtualClock(START)
    store = await open_sqlite(path, clock=clock)
    world = World(store, clock)
    holder = await world.held_run("order-1")
    transaction = await store.transact(is_async=True)
    await store.create_within(transaction.connection, world.new("written"), key_since=START)
    faults.arm(verb, number, code)
    verdict = await transaction.commit(holder.turn())
    faults.disarm()
    is_there = isinstance(verdict, Committed)
    assert is_there or isinstance(verdict, RolledBack)
    assert is_there or faults.hits
    await store.close()
    again = World(await open_sqlite(path, clock=clock), clock)
    assert (await again.store.get("written") is not None) is is_there
    assert (await again.get("order-1")).next_ordinal == (3 if is_there else 2)
    await again.verify()
    await again.store.close()
