"""Lease managers that are servers of their own, bound to the suite of grants."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from holdfast.ports.grants import Grants
from holdfast.testing.conformance import GrantsSuite, VirtualClock
from tests.support import etcd, nats


class TestEtcdGrants(GrantsSuite):
    ttl = timedelta(seconds=3)
    slack = timedelta(seconds=1.4)  # etcd counts in whole seconds

    def make_clock(self) -> VirtualClock:
        return etcd.PassingClock()

    async def open(self, clock: VirtualClock) -> Grants:
        self.prefix = etcd.new_prefix()
        return await self._open(clock)

    async def reopen(self, grants: Grants) -> Grants:
        return await self._open(self.clock)

    async def _open(self, clock: VirtualClock) -> Grants:
        grants = await asyncio.to_thread(etcd.new_grants, clock, prefix=self.prefix)
        await grants.open()
        return grants


class TestNatsGrants(GrantsSuite):
    ttl = timedelta(seconds=3)
    slack = timedelta(seconds=1.4)  # NATS looks for what has run out once a second

    def make_clock(self) -> VirtualClock:
        return etcd.PassingClock()

    async def open(self, clock: VirtualClock) -> Grants:
        self.prefix = etcd.new_prefix()
        return await self._open(clock)

    async def reopen(self, grants: Grants) -> Grants:
        return await self._open(self.clock)

    async def _open(self, clock: VirtualClock) -> Grants:
        grants = await asyncio.to_thread(nats.new_grants, clock, prefix=self.prefix)
        await grants.open()
        return grants
