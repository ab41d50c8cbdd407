"""Each suite of a port, bound to a store that shows the verbs of the ports it names and no others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from holdfast.adapters.memory.store import MemoryStore
from holdfast.ports.blobs import Blobs
from holdfast.ports.condition import Diagnosable
from holdfast.ports.inbox import Inbox
from holdfast.ports.journal import Journal
from holdfast.ports.leases import Leases
from holdfast.ports.limits import Limits
from holdfast.ports.overview import Overview
from holdfast.ports.parts import Streams
from holdfast.ports.queues import Queues
from holdfast.ports.runs import Runs
from holdfast.ports.schedules import Schedules
from holdfast.ports.store import Store
from holdfast.ports.transactions import Transactions
from holdfast.ports.updates import Answers
from holdfast.ports.upkeep import Upkeep
from holdfast.testing import conformance as suites
from holdfast.testing.conformance import BlobsSuite, StoreSuite, Suite, TransactionsSuite, VirtualClock
from holdfast.testing.conformance.suite import Closes, HasRows
from holdfast.testing.conformance.world import START
from tests.support.sqlite import open_copy

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "writing-a-store.md"

RUNNING: tuple[type, ...] = (Store, Runs, Journal, Leases, Inbox)
"""What it takes to make, advance, wake and compare runs: every suite may use it, except `BlobsSuite`."""

BEYOND: Mapping[type[Any], tuple[type, ...]] = {
    suites.JournalSuite: (Blobs,),
    suites.SnapshotSuite: (Blobs, Upkeep),
    suites.ParkingSuite: (Blobs,),
    suites.TurnRowsSuite: (),
    suites.ChildrenSuite: (Blobs,),
    suites.TreesSuite: (),
    suites.RunsSuite: (Blobs,),
    suites.UniquesSuite: (Upkeep,),
    suites.SuccessionsSuite: (),
    suites.JoinsSuite: (),
    suites.SchedulesSuite: (Schedules,),
    suites.QueuesSuite: (Queues,),
    suites.QueueSharesSuite: (Queues,),
    suites.QueueLoadSuite: (Queues, Diagnosable),
    suites.LimitsSuite: (Limits,),
    suites.StreamsSuite: (Streams, Upkeep),
    suites.OverviewSuite: (Overview,),
    suites.InboxSuite: (Blobs,),
    suites.UpdatesSuite: (Answers, Blobs, Upkeep),
    suites.ReceiptsSuite: (),
    suites.ChecksumsSuite: (Blobs, Upkeep),
    suites.ClaimSuite: (),
    suites.SharesSuite: (),
    suites.LeasesSuite: (),
    suites.OwnershipSuite: (),
    suites.SuspectsSuite: (),
    suites.BlobsSuite: (Blobs,),
    suites.ReferencesSuite: (Blobs, Upkeep),
    suites.UpkeepSuite: (Blobs, Upkeep),
    suites.DeletionSuite: (Blobs, Upkeep),
    suites.RedactionSuite: (Answers, Blobs, Streams, Upkeep),
    suites.HintsSuite: (),
}
"""What else each suite asks for."""


def ports_of(suite: type[Any]) -> tuple[type, ...]:
    """All ports that a suite may use."""
    return BEYOND[suite] if suite is BlobsSuite else (*RUNNING, *BEYOND[suite])


class Only:
    """A store that has the verbs of these ports, and no others."""

    def __init__(self, inner: Store, ports: tuple[type, ...]) -> None:
        for verb in {name for port in ports for name in vars(port) if not name.startswith("_")}:
            setattr(self, verb, getattr(inner, verb))


def bound(suite: type[Any]) -> type[Any]:
    """That suite for the memory store, seen through its ports."""

    async def opened(_: Suite, clock: VirtualClock, folder: Path) -> Any:
        return Only(MemoryStore(clock), ports_of(suite))

    return type(f"TestOnly{suite.__name__.removesuffix('Suite')}", (suite,), {"open": opened, "__module__": __name__})


for _suite in BEYOND:
    globals()[f"TestOnly{_suite.__name__.removesuffix('Suite')}"] = bound(_suite)


class TestOnlyTransactions(TransactionsSuite):
    """Of a store with a database, since the memory store refuses transactions."""

    async def open(self, clock: VirtualClock, folder: Path) -> Any:
        return Only(await open_copy(folder / "store.db", clock), (*RUNNING, Transactions))


def test_every_suite_of_a_store_is_bound() -> None:
    """Promise: together these classes are the whole of what the memory store owes."""
    assert set(BEYOND) == set(StoreSuite.__bases__)


def test_another_ports_verb_is_missing() -> None:
    """Promise: a case that uses a port its suite does not name fails, and its rows are compared all the same."""
    clock = VirtualClock(START)
    runs = Only(MemoryStore(clock), ports_of(suites.ReceiptsSuite))
    assert isinstance(runs, HasRows)
    assert isinstance(runs, Closes)
    for port in (Blobs, Upkeep, Queues, Limits, Streams, Schedules, Overview, Answers, Transactions, Diagnosable):
        for verb in (name for name in vars(port) if not name.startswith("_")):
            assert not hasattr(runs, verb), verb
    blobs: Any = Only(MemoryStore(clock), ports_of(BlobsSuite))
    with pytest.raises(AttributeError, match="create"):
        blobs.create(None)
    assert not isinstance(blobs, HasRows)


def test_the_guide_names_the_ports_of_each_suite() -> None:
    """Promise: who binds one suite reads there what it takes."""
    said = dict(re.findall(r"^\| `(\w+Suite)` \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert said == {
        suite.__name__: ", ".join(f"`{port.__name__}`" for port in ports) or "nothing more"
        for suite, ports in BEYOND.items()
    }
