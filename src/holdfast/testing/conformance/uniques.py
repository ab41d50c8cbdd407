"""Unique values: at most one open run per workflow and value."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from hashlib import sha256

import msgspec
import pytest

from holdfast.core import events as e
from holdfast.ports.journal import Park
from holdfast.ports.runs import Existing, Lacking, Made
from holdfast.testing.conformance.suite import Suite
from holdfast.testing.conformance.world import BOOM, DONE, STOPPED, World, seconds

CALLERS = 10


class UniquesSuite(Suite):
    """What a store must do for starts that name a unique value."""

    async def test_an_open_run_has_its_value(self, world: World) -> None:
        """Contract: Existing by unique, whether the run is pending, held or parked; nothing is written."""
        await world.make("r1", unique="u")
        await _assert_taken(world)
        holder = await world.holder("r1")
        await holder.commits()
        await _assert_taken(world)
        await holder.parks(world.clock.now() + seconds(60))
        await _assert_taken(world)

    @pytest.mark.parametrize("end", [DONE, BOOM, STOPPED], ids=["completed", "failed", "cancelled"])
    async def test_the_end_of_the_run_frees_its_value(self, world: World, end: e.Terminal) -> None:
        """Contract: however the run ended, the next start makes a run, which has the value from then on."""
        await world.ended_run("r1", end, unique="u")
        await world.make("r2", unique="u")
        assert await world.create(world.new("r3", unique="u")) == Existing(await world.get("r2"), by="unique")
        holder = await world.holder("r2")
        await holder.commits(DONE)
        await world.make("r4", unique="u")

    async def test_a_paused_run_keeps_its_value(self, world: World) -> None:
        """Contract: a run that is paused has not ended."""
        holder = await world.held_run("r1", unique="u")
        await holder.commits(e.Paused(reason="operator"), park=Park(None))
        assert await world.create(world.new("r2", unique="u")) == Existing(await world.get("r1"), by="unique")

    async def test_a_value_belongs_to_one_workflow(self, world: World) -> None:
        """Contract: the same value of another workflow is another value, and so is another value; a key is none."""
        await world.make("r1", unique="u", key="k")
        for run, workflow, unique in (("r2", "parcel", "u"), ("r3", "order", "v"), ("r4", "order", "k")):
            await world.make(run, workflow, unique=unique)

    async def test_no_value_is_not_a_value(self, world: World) -> None:
        """Contract: runs without a value never match each other."""
        await world.make("r1")
        await world.make("r2")

    async def test_the_id_then_the_key_are_asked_before_the_value(self, world: World) -> None:
        """Contract: a call that meets several runs is answered by id, else by key."""
        await world.make("r1", unique="u")
        await world.make("r2", key="k")
        assert await world.create(world.new("r2", unique="u")) == Existing(await world.get("r2"))
        assert await world.create(world.new("r3", unique="u", key="k")) == Existing(await world.get("r2"), by="key")

    async def test_a_run_that_continues_keeps_its_value(self, world: World) -> None:
        """Contract: also as another workflow, whose own values are not touched."""
        holder = await world.held_run("r1", unique="u")
        await holder.commits(e.Continued(workflow="parcel", value=msgspec.Raw(b"[]")))
        assert (await world.get("r1")).workflow == "parcel"
        assert await world.create(world.new("r2", unique="u")) == Existing(await world.get("r1"), by="unique")
        await world.make("r3", "parcel", unique="u")
        await holder.commits(DONE)
        await world.make("r4", unique="u")

    async def test_a_run_made_already_claimed_has_its_value(self, world: World) -> None:
        """Contract: with `instance` too, and a caller that meets it claims nothing."""
        await world.worker("i1")
        await world.worker("i2")
        made = await world.create(world.new("r1", unique="u"), instance="i1", worker="w1")
        assert isinstance(made, Made)
        met = await world.create(world.new("r2", unique="u"), instance="i2", worker="w2")
        assert met == Existing(await world.get("r1"), by="unique")
        assert (await world.get("r1")).instance == "i1"
        assert dict(await world.store.held("i2")) == {}

    async def test_a_run_that_was_not_made_has_no_value(self, world: World) -> None:
        """Contract: a start that lacks a blob, or meets a run by id or key, leaves the value free."""
        await world.make("old", key="k")
        missing = sha256(b"missing").hexdigest()
        assert isinstance(await world.create(world.new("r1", unique="u", needs=(missing,))), Lacking)
        assert isinstance(await world.create(world.new("old", unique="u")), Existing)
        assert isinstance(await world.create(world.new("r2", unique="u", key="k")), Existing)
        await world.make("r3", unique="u")

    @pytest.mark.parametrize("values", [1, 3])
    async def test_concurrent_starts_make_one_run_per_value(self, world: World, values: int) -> None:
        """Contract: of any number of concurrent callers one makes the run of a value, and all are given it. Keys and
        values that are asked for crosswise do not deadlock."""
        names = [f"u{count % values}" for count in range(CALLERS * values)]
        new = [world.new(f"r{count}", unique=name) for count, name in enumerate(names)]
        creations = await asyncio.gather(*(world.create(each) for each in new))
        assert Counter(type(creation) for creation in creations) == {Made: values, Existing: (CALLERS - 1) * values}
        by_value = {
            (name, creation.run.id)
            for name, creation in zip(names, creations, strict=True)
            if not isinstance(creation, Lacking)
        }
        assert len(by_value) == values
        assert len(await world.runs()) == values

    async def test_starts_that_race_with_the_end_make_one_run(self, world: World) -> None:
        """Contract: each caller is given a run that was open, and at most one run is made."""
        holder = await world.held_run("r", unique="u")
        new = [world.new(f"r{count}", unique="u") for count in range(CALLERS)]
        creations = await asyncio.gather(holder.commits(DONE), *(world.create(each) for each in new))
        made = [creation.run.id for creation in creations if isinstance(creation, Made)]
        assert len(made) <= 1
        met = {creation.run.id for creation in creations if isinstance(creation, Existing)}
        assert met <= {"r", *made}

    async def test_a_removed_run_leaves_nothing(self, world: World) -> None:
        """Contract: retention removes a run that had a value last, and not the place of the run that has it now."""
        await world.ended_run("r1", unique="u")
        await world.ended_run("r2", unique="v")
        await world.make("r3", unique="v")
        world.clock.advance(timedelta(days=1))
        removed = await world.store.remove(["r1", "r2"], timedelta(0))
        assert removed.runs == 2
        await world.make("r4", unique="u")
        assert await world.create(world.new("r5", unique="v")) == Existing(await world.get("r3"), by="unique")


async def _assert_taken(world: World) -> None:
    before = await world.dump()
    creation = await world.create(world.new("r2", unique="u", attributes={"a": "b"}))
    assert creation == Existing(await world.get("r1"), by="unique")
    assert await world.dump() == before
