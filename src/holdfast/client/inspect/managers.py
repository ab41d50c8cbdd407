"""A lease manager as people see it: its servers, the workers it knows, and where it and the store disagree."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from holdfast.client.inspect.finding import LISTED, Finding
from holdfast.client.inspect.findings import LARGE_SKEW
from holdfast.core.durations import format_duration
from holdfast.core.plurals import counted
from holdfast.errors import StoreError
from holdfast.ports.grants import ExaminedGrants, Grants, Member, Standing
from holdfast.ports.store import Store

COMPARED = 1000
"""Maximum number of grants compared with the store."""


class LeaseHolder(msgspec.Struct, frozen=True):
    """A worker as the manager knows it, and the first runs that it is granted.

    `skew_seconds`: how far its clock is ahead of the store's, negative if it is behind, 0 if the difference is small.
    """

    worker: str
    is_live: bool
    active: int
    seen_at: datetime | None
    skew_seconds: float
    runs: tuple[str, ...]


class Disagreement(msgspec.Struct, frozen=True):
    """A run that the manager grants to one worker while the store says that another holds it. It resolves itself: the
    store decides who writes."""

    run: str
    granted_to: str
    held_by: str


class LeaseReport(msgspec.Struct, frozen=True):
    """`manager` is "store" if the store grants its leases itself; then the rest is empty. `problem`: why the rest could
    not be read."""

    manager: str
    members: tuple[Member, ...] = ()
    holders: tuple[LeaseHolder, ...] = ()
    compared: int = 0
    disagreements: tuple[Disagreement, ...] = ()
    problem: str = ""


async def read_leases(
    grants: Grants, store: Store, ttl: timedelta | None = None, *, most: int = COMPARED
) -> LeaseReport:
    """Compares the manager with the store. `ttl`: the length of leases, which reveals a clock that is behind; `most`:
    the maximum number of grants to compare. Changes nothing."""
    report = LeaseReport("manager")
    try:
        held: Mapping[str, str] = {}
        if isinstance(grants, ExaminedGrants):
            condition = await grants.condition()
            report = LeaseReport(condition.name, condition.members)
            held = await grants.holders()
        standing = await grants.workers()
        holders = tuple(_holder(one, held, store.clock.now(), ttl) for one in standing)
        report = msgspec.structs.replace(report, holders=holders)
        compared = list(held.items())[:most]
        found = [each for run, worker in compared if (each := await _disagreement(run, worker, store)) is not None]
        return msgspec.structs.replace(report, compared=len(compared), disagreements=tuple(found))
    except StoreError as error:
        return msgspec.structs.replace(report, problem=str(error))


def _holder(one: Standing, held: Mapping[str, str], now: datetime, ttl: timedelta | None) -> LeaseHolder:
    runs = sorted(run for run, worker in held.items() if worker == one.worker)[:LISTED]
    return LeaseHolder(one.worker, one.is_live, one.active, one.seen_at, _skew(one, now, ttl), tuple(runs))


def _skew(one: Standing, now: datetime, ttl: timedelta | None) -> float:
    """The skew of a worker's clock. A heartbeat from the future comes from a clock that is ahead; one older than its
    lease, from a clock that is behind."""
    if one.seen_at is None:
        return 0.0
    ahead = one.seen_at - now
    if ahead > LARGE_SKEW:
        return ahead.total_seconds()
    if ttl is not None and one.is_live and -ahead > ttl + LARGE_SKEW:
        return (ahead + ttl).total_seconds()
    return 0.0


async def _disagreement(run: str, worker: str, store: Store) -> Disagreement | None:
    lease = await store.lease(run)
    return None if lease is None or lease.worker == worker else Disagreement(run, worker, lease.worker)


async def lease_findings(grants: Grants, store: Store, ttl: timedelta | None = None) -> AsyncIterator[Finding]:
    """The report as findings of `holdfast doctor`."""
    report = await read_leases(grants, store, ttl)
    for member in report.members:
        text = f"{report.manager} at {member.address}: {member.problem or member.role}"
        yield Finding("leases", "problem" if member.problem else "ok", text)
    if report.problem:
        yield Finding("leases", "problem", report.problem)
        return
    yield _holders(report.holders)
    for finding in _skews(report.holders):
        yield finding
    if isinstance(grants, ExaminedGrants):
        for finding in _disagreements(report):
            yield finding


def _holders(holders: Sequence[LeaseHolder]) -> Finding:
    if not holders:
        return Finding("leases", "ok", "no worker holds a lease there")
    named = [
        f"{one.worker} ({counted(one.active, 'run')}{'' if one.is_live else ', silent'})" for one in holders[:LISTED]
    ]
    more = f" and {len(holders) - LISTED} more" if len(holders) > LISTED else ""
    return Finding("leases", "ok", f"known there: {', '.join(named)}{more}")


def _skews(holders: Sequence[LeaseHolder]) -> list[Finding]:
    found: list[Finding] = []
    for one in holders:
        if one.skew_seconds:
            by = format_duration(timedelta(seconds=abs(one.skew_seconds)))
            side = "ahead of" if one.skew_seconds > 0 else "behind"
            found.append(Finding("clock", "warning", f"the clock of worker {one.worker} is {by} {side} the store's"))
    return found


def _disagreements(report: LeaseReport) -> list[Finding]:
    found = [
        Finding("leases", "warning", f"run {one.run}: granted to {one.granted_to}, held by {one.held_by} in the store")
        for one in report.disagreements[:LISTED]
    ]
    if (more := len(report.disagreements) - LISTED) > 0:
        found.append(Finding("leases", "warning", f"and {more} more disagreements"))
    if not found:
        found.append(Finding("leases", "ok", f"manager and store agree on {counted(report.compared, 'run')}"))
    return found
