"""A lease manager as people see it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.memory.grants import MemoryGrants
from holdfast.adapters.memory.store import MemoryStore
from holdfast.authoring.registry import Registry
from holdfast.client.client import Client
from holdfast.client.inspect.managers import lease_findings, read_leases
from holdfast.config import LeaseSettings
from holdfast.errors import StoreUnavailable
from holdfast.ports.grants import GrantsCondition, Member
from holdfast.stores import lease_service_report
from tests.support.world import START

TTL = timedelta(seconds=15)


class Examined(MemoryGrants):
    """A manager in memory that can be examined, and loses its voice."""

    is_mute = False

    async def condition(self) -> GrantsCondition:
        return GrantsCondition("memory", (Member("here", "leader"),))

    async def holders(self) -> Mapping[str, str]:
        if self.is_mute:
            raise StoreUnavailable("the manager does not answer")
        return {run: held.worker for run, held in self._held.items()}


async def test_the_store_as_its_own_manager_says_so() -> None:
    """Contract: a program that asks need not know the configuration."""
    report = await lease_service_report(LeaseSettings(), Client(MemoryStore(), Registry()), most=10)
    assert (report.manager, report.members, report.problem) == ("store", (), "")


async def test_a_manager_that_cannot_be_used_is_a_problem_of_the_report() -> None:
    """Contract: the reason, and no exception."""
    settings = LeaseSettings(type="etcd", endpoints=("http://host:1/path",))
    report = await lease_service_report(settings, Client(MemoryStore(), Registry()), most=10)
    assert report.manager == "etcd"
    assert "is not an address" in report.problem


async def test_holders_are_named_with_their_runs_and_clocks() -> None:
    """Contract: the first runs of each; a clock that is far ahead, or behind by more than the lease explains."""
    clock, theirs = VirtualClock(START), VirtualClock(START)
    grants, store = Examined(theirs), MemoryStore(clock)
    for ahead, worker in ((300, "fast"), (-300, "slow"), (0, "right")):
        theirs.set(START + timedelta(seconds=ahead))
        grants.heartbeat(worker, TTL)
        await grants.acquire_many([f"{worker}-{number:02}" for number in range(12)], worker, TTL)
    report = await read_leases(grants, store, TTL)
    by_name = {one.worker: one for one in report.holders}
    assert {name: round(one.skew_seconds) for name, one in by_name.items()} == {"fast": 300, "slow": -285, "right": 0}
    assert (by_name["right"].active, by_name["right"].runs[0]) == (12, "right-00")
    assert len(by_name["right"].runs) < 12
    assert report.compared == 36
    texts = [one.text async for one in lease_findings(grants, store, TTL)]
    assert "the clock of worker slow is 4 min 45 s behind the store's" in texts
    assert "manager and store agree on 36 runs" in texts


async def test_what_was_read_before_the_manager_fell_silent_is_shown() -> None:
    """Contract: members, and the reason that the rest is missing."""
    grants = Examined(VirtualClock(START))
    grants.is_mute = True
    report = await read_leases(grants, MemoryStore())
    assert (report.manager, report.members) == ("memory", (Member("here", "leader"),))
    assert report.problem == "the manager does not answer"
    findings = [f"{one.state}: {one.text}" async for one in lease_findings(grants, MemoryStore())]
    assert findings == ["ok: memory at here: leader", "problem: the manager does not answer"]
