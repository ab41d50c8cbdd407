"""Damage: an unreadable value affects its own row, and nothing else.

For stores whose rows can be changed from outside. Data in a store may be damaged by a failing disk, a restored file or
another program, so the cases write into columns what no store writes, and check that everything else still works.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import Any

import pytest

from holdfast.core.status import Status
from holdfast.ports.condition import FindsDamage
from holdfast.ports.leases import Over, Taken
from holdfast.ports.runs import Filter, RunRow
from holdfast.testing.conformance.suite import Suite
from holdfast.testing.conformance.world import DONE, TTL, World

__all__ = ["RUN_VALUES", "WORKER_VALUES", "DamageSuite"]

FAR, LONG_AGO = 2**62, -(2**62)
RUN_VALUES: tuple[tuple[str, Any], ...] = (
    ("status", "{{"),
    ("status", ""),
    ("doing", b"{{"),
    ("doing", b'{"now":7}'),
    ("doing", b"\xff\xfe"),
    ("deadline", FAR),
    ("deadline", LONG_AGO),
    ("created_at", FAR),
    ("created_at", LONG_AGO),
    ("started_at", FAR),
    ("updated_at", LONG_AGO),
    ("available_at", LONG_AGO),
)
"""Columns of a run that waits for a worker, with unreadable values for each."""

WORKER_VALUES: tuple[tuple[str, Any], ...] = (
    ("queues", "{{"),
    ("queues", '{"a":1}'),
    ("definitions", "{{"),
    ("definitions", "[1]"),
    ("definitions", "null"),
    ("recovery", "{{"),
    ("started_at", FAR),
    ("seen_at", FAR),
    ("expires", 2**63 - 1),
)


class DamageSuite(Suite):
    """Cases about unreadable rows. Define how to write a column without the store."""

    @abstractmethod
    async def write(self, world: World, table: str, column: str, value: object, where: tuple[str, object]) -> Any:
        """Sets the column of the row in which the column named by `where` has that value. Returns the old value."""
        ...

    @pytest.mark.parametrize("damage", RUN_VALUES, ids=str)
    async def test_a_damaged_run_costs_itself_alone(self, world: World, damage: tuple[str, Any]) -> None:
        """Contract: it is listed, counted, returned and claimed with its problems; all others are unaffected."""
        column, value = damage
        worker = await world.worker()
        for run in ("a", "b", "c"):
            await world.make(run)
        before = await self.write(world, "runs", column, value, ("id", "b"))
        try:
            await self._look(world, column)
            claims = await world.claim(worker)
            assert {run.id: bool(run.damage) for run in claims.runs} == {"a": False, "b": True, "c": False}
            assert set(await world.store.held(worker.instance)) == {"a", "b", "c"}
            heart = world.store.heart("i1", TTL)
            await asyncio.to_thread(heart.beat)
            heart.close()
            taken = await world.store.take("b", instance="operator", steal=True)
            assert isinstance(taken, Taken)
            assert column in taken.run.damage[0]
            assert await world.store.release(taken.run.no, epoch=taken.run.epoch, until=None, inbox_seen=0)
            await world.store.release_all("i1")
        finally:
            await self.write(world, "runs", column, before, ("id", "b"))

    async def _look(self, world: World, column: str) -> None:
        store = world.store
        row = await world.get("b")
        assert [said.partition(" ")[0] for said in row.damage] == [column]
        found = await self._pages(world)
        assert {run.id: bool(run.damage) for run in found} == {"a": False, "b": True, "c": False}
        assert sum((await store.count()).values()) == 3
        if isinstance(store, FindsDamage):
            assert [run.id for run in await store.damaged(limit=5)] == ["b"]
            assert await store.damaged(limit=0) == []

    async def _pages(self, world: World) -> list[RunRow]:
        """Every run, each on a page of its own."""
        found: list[RunRow] = []
        after = ""
        while True:
            page = await world.store.list(Filter(), after=after, limit=1)
            found += page.runs
            if not page.next:
                return found
            after = page.next

    @pytest.mark.parametrize("damage", RUN_VALUES, ids=str)
    async def test_a_turn_of_a_damaged_run_is_taken(self, world: World, damage: tuple[str, Any]) -> None:
        """Contract: its holder can end it; what a turn writes is readable again."""
        column, value = damage
        holder = await world.held_run("a")
        before = await self.write(world, "runs", column, value, ("id", "a"))
        await holder.commits(DONE)
        row = await world.get("a")
        assert row.status is Status.COMPLETED
        if column in {"deadline", "created_at"}:
            assert row.damage
            await self.write(world, "runs", column, before, ("id", "a"))
        assert not (await world.get("a")).damage

    async def test_an_end_that_is_no_instant_is_no_end(self, world: World) -> None:
        """Contract: a run whose end time is not an instant can be taken, and then ended."""
        await world.make("a")
        await self.write(world, "runs", "ended_at", FAR, ("id", "a"))
        taken = await world.store.take("a", instance="operator", steal=True)
        assert isinstance(taken, Taken)
        await (await world.reader(taken.run)).commits(DONE)
        assert isinstance(await world.store.take("a", instance="operator"), Over)

    @pytest.mark.parametrize("damage", WORKER_VALUES, ids=str)
    async def test_a_damaged_worker_costs_itself_alone(self, world: World, damage: tuple[str, Any]) -> None:
        """Contract: it is listed; others claim, beat, register and delay what no worker serves; it beats too."""
        column, value = damage
        await world.worker("i1")
        other = await world.worker("i2", definitions=(("order", ""),))
        for run in ("a", "b"):
            await world.make(run)
        await world.make("parcel", workflow="parcel")
        await world.make("held")
        await world.holder("held", instance="i1")
        await self.write(world, "workers", column, value, ("instance", "i1"))
        rows = {row.instance: row for row in await world.store.workers()}
        assert set(rows) == {"i1", "i2"}
        assert rows["i2"].is_live
        assert not rows["i2"].damage
        assert bool(rows["i1"].damage) is (column != "expires")
        for instance in ("i2", "i1"):
            heart = world.store.heart(instance, TTL)
            beat = await asyncio.to_thread(heart.beat)
            heart.close()
            assert beat.now == world.clock.now()
        await world.worker("i3")
        claimed = {run.id for run in (await world.claim(other)).runs}
        assert {"a", "b"} <= claimed
        assert ("held" in claimed) is (column == "expires"), "a lease that lasts forever is none"
