"""Conformance: what every store must do, as test cases to run against yours. Needs pytest.

A suite per port, each case a contract in its docstring. Bind them all to a store with one class in a test file::

    from holdfast.testing.conformance import StoreSuite

    class TestMyStore(StoreSuite):
        async def open(self, clock, folder):
            return await open_my_store(folder / "my.db", clock=clock)

Each case gets a fresh store and a clock that it moves; nothing sleeps, and no plugin or conftest is needed.
"""

from __future__ import annotations

try:
    import pytest
except ImportError as _missing:  # pragma: no cover - the suite itself runs under pytest
    from holdfast.extras import install_command

    raise ImportError(
        f"holdfast.testing.conformance needs pytest. Install it: {install_command('testing')}"
    ) from _missing

MODULES = (
    "blob_home blobs checksums children claims damage deletion grants hints inbox journal leases limits machine_logs "
    "overview ownership parking queue_load queue_shares queues receipts references runs schedules shares snapshots "
    "streams suite suspects transactions trees turn_rows turn_table uniques updates upkeep world"
).split()
pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in MODULES))

from holdfast.adapters.memory.clock import VirtualClock  # noqa: E402 - asserts are rewritten on import
from holdfast.testing.conformance.blob_home import BlobHomeSuite  # noqa: E402
from holdfast.testing.conformance.blobs import BlobsSuite  # noqa: E402
from holdfast.testing.conformance.checksums import ChecksumsSuite  # noqa: E402
from holdfast.testing.conformance.children import ChildrenSuite  # noqa: E402
from holdfast.testing.conformance.claims import ClaimSuite  # noqa: E402
from holdfast.testing.conformance.damage import DamageSuite  # noqa: E402
from holdfast.testing.conformance.deletion import DeletionSuite  # noqa: E402
from holdfast.testing.conformance.grants import GrantsSuite, StoreGrants  # noqa: E402
from holdfast.testing.conformance.hints import HintsSuite  # noqa: E402
from holdfast.testing.conformance.inbox import InboxSuite  # noqa: E402
from holdfast.testing.conformance.joins import JoinsSuite  # noqa: E402
from holdfast.testing.conformance.journal import JournalSuite  # noqa: E402
from holdfast.testing.conformance.leases import LeasesSuite  # noqa: E402
from holdfast.testing.conformance.limits import LimitsSuite  # noqa: E402
from holdfast.testing.conformance.machine_logs import MachineLogSuite  # noqa: E402
from holdfast.testing.conformance.overview import OverviewSuite  # noqa: E402
from holdfast.testing.conformance.ownership import OwnershipSuite  # noqa: E402
from holdfast.testing.conformance.parking import ParkingSuite  # noqa: E402
from holdfast.testing.conformance.queue_load import QueueLoadSuite  # noqa: E402
from holdfast.testing.conformance.queue_shares import QueueSharesSuite  # noqa: E402
from holdfast.testing.conformance.queues import QueuesSuite  # noqa: E402
from holdfast.testing.conformance.receipts import ReceiptsSuite  # noqa: E402
from holdfast.testing.conformance.redaction import RedactionSuite  # noqa: E402
from holdfast.testing.conformance.references import ReferencesSuite  # noqa: E402
from holdfast.testing.conformance.runs import RunsSuite  # noqa: E402
from holdfast.testing.conformance.schedules import SchedulesSuite  # noqa: E402
from holdfast.testing.conformance.shares import SharesSuite  # noqa: E402
from holdfast.testing.conformance.snapshots import SnapshotSuite  # noqa: E402
from holdfast.testing.conformance.streams import StreamsSuite  # noqa: E402
from holdfast.testing.conformance.successions import SuccessionsSuite  # noqa: E402
from holdfast.testing.conformance.suite import Suite  # noqa: E402
from holdfast.testing.conformance.suspects import SuspectsSuite  # noqa: E402
from holdfast.testing.conformance.transactions import TransactionsSuite  # noqa: E402
from holdfast.testing.conformance.trees import TreesSuite  # noqa: E402
from holdfast.testing.conformance.turn_rows import TurnRowsSuite  # noqa: E402
from holdfast.testing.conformance.uniques import UniquesSuite  # noqa: E402
from holdfast.testing.conformance.updates import UpdatesSuite  # noqa: E402
from holdfast.testing.conformance.upkeep import UpkeepSuite  # noqa: E402
from holdfast.testing.conformance.world import World  # noqa: E402

__all__ = [
    "BlobHomeSuite",
    "BlobsSuite",
    "ChecksumsSuite",
    "ChildrenSuite",
    "ClaimSuite",
    "DamageSuite",
    "DeletionSuite",
    "GrantsSuite",
    "HintsSuite",
    "InboxSuite",
    "JoinsSuite",
    "JournalSuite",
    "LeasesSuite",
    "LimitsSuite",
    "MachineLogSuite",
    "OverviewSuite",
    "OwnershipSuite",
    "ParkingSuite",
    "QueueLoadSuite",
    "QueueSharesSuite",
    "QueuesSuite",
    "ReceiptsSuite",
    "RedactionSuite",
    "ReferencesSuite",
    "RunsSuite",
    "SchedulesSuite",
    "SharesSuite",
    "SnapshotSuite",
    "StoreGrants",
    "StoreSuite",
    "StreamsSuite",
    "SuccessionsSuite",
    "Suite",
    "SuspectsSuite",
    "TransactionsSuite",
    "TreesSuite",
    "TurnRowsSuite",
    "UniquesSuite",
    "UpdatesSuite",
    "UpkeepSuite",
    "VirtualClock",
    "World",
]


class StoreSuite(
    JournalSuite,
    SnapshotSuite,
    ParkingSuite,
    TurnRowsSuite,
    ChildrenSuite,
    TreesSuite,
    RunsSuite,
    UniquesSuite,
    SuccessionsSuite,
    JoinsSuite,
    SchedulesSuite,
    QueuesSuite,
    QueueSharesSuite,
    QueueLoadSuite,
    LimitsSuite,
    StreamsSuite,
    OverviewSuite,
    InboxSuite,
    UpdatesSuite,
    ReceiptsSuite,
    ChecksumsSuite,
    ClaimSuite,
    SharesSuite,
    LeasesSuite,
    OwnershipSuite,
    SuspectsSuite,
    BlobsSuite,
    ReferencesSuite,
    UpkeepSuite,
    DeletionSuite,
    RedactionSuite,
    HintsSuite,
):
    """Everything a store must do. A store with its own database also binds `TransactionsSuite` and `DamageSuite`."""
