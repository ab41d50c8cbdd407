"""What is wrong with a lease manager: who answers for it, whom it knows, and where it and the store disagree."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence

from holdfast.client.inspect.finding import Finding
from holdfast.client.inspect.findings import LARGE_SKEW, LISTED
from holdfast.core.durations import format_duration
from holdfast.core.plurals import counted
from holdfast.errors import StoreError
from holdfast.ports.grants import ExaminedGrants, Grants, Standing
from holdfast.ports.store import Store

COMPARED = 1000
"""Grants that are compared with the store, at most."""


async def lease_findings(grants: Grants, store: Store) -> AsyncIterator[Finding]:
    """Manager and members, workers it knows, clocks, and disagreements with the store."""
    try:
        if isinstance(grants, ExaminedGrants):
            condition = await grants.condition()
            for member in condition.members:
                text = f"{condition.name} at {member.address}: {member.problem or member.role}"
                yield Finding("leases", "problem" if member.problem else "ok", text)
        standing = await grants.workers()
        yield _holders(standing)
        for finding in _skews(standing, store):
            yield finding
        if isinstance(grants, ExaminedGrants):
            async for finding in _disagreements(await grants.holders(), store):
                yield finding
    except StoreError as error:
        yield Finding("leases", "problem", str(error))


def _holders(standing: Sequence[Standing]) -> Finding:
    if not standing:
        return Finding("leases", "ok", "no worker holds a lease there")
    named = [
        f"{one.worker} ({counted(one.active, 'run')}{'' if one.is_live else ', silent'})" for one in standing[:LISTED]
    ]
    more = f" and {len(standing) - LISTED} more" if len(standing) > LISTED else ""
    return Finding("leases", "ok", f"known there: {', '.join(named)}{more}")


def _skews(standing: Sequence[Standing], store: Store) -> list[Finding]:
    """A heartbeat that comes from the future was sent by a clock that is wrong."""
    now = store.clock.now()
    ahead = [(one.worker, one.seen_at - now) for one in standing if one.seen_at is not None]
    return [
        Finding("clock", "warning", f"the clock of worker {worker} is {format_duration(skew)} ahead of the store's")
        for worker, skew in ahead
        if skew > LARGE_SKEW
    ]


async def _disagreements(holders: Mapping[str, str], store: Store) -> AsyncIterator[Finding]:
    """Runs that the manager grants to one worker while the store says another holds them. They heal by themselves:
    the store decides who writes."""
    found: list[str] = []
    for run, worker in list(holders.items())[:COMPARED]:
        lease = await store.lease(run)
        if lease is not None and lease.worker != worker:
            found.append(f"run {run}: granted to {worker}, held by {lease.worker} in the store")
    for text in found[:LISTED]:
        yield Finding("leases", "warning", text)
    if len(found) > LISTED:
        yield Finding("leases", "warning", f"and {len(found) - LISTED} more disagreements")
    if not found:
        yield Finding("leases", "ok", f"manager and store agree on {counted(min(len(holders), COMPARED), 'run')}")
