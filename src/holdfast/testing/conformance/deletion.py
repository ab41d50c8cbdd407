"""Deleting trees because a client asks: `Upkeep.remove` with `is_asked`."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import msgspec

from holdfast.core import events as e
from holdfast.core.payload import hash_of
from holdfast.ports.inbox import Missing
from holdfast.ports.upkeep import Removed
from holdfast.testing.conformance.suite import Suite
from holdfast.testing.conformance.world import DONE, World, seconds, signal

GRACE = timedelta(days=1)
BIG = b'"large"'
NAME = hash_of(BIG)


class DeletionSuite(Suite):
    """What a client deletes is removed at once and completely; a tree with an open run stays complete."""

    async def test_an_ended_run_is_removed_when_asked(self, world: World) -> None:
        """Contract: it is removed at once, whatever its retention; others stay; seq continues, and the id can start a
        new run."""
        holder = await world.held_run("r", keep=timedelta(days=365), attributes={"tier": "gold"})
        await holder.commits(e.Exposed(name="progress", value=msgspec.Raw(BIG)))
        await holder.commits(DONE)
        await world.ended_run("other")
        newest = (await world.store.history("other"))[-1].seq
        assert await world.store.remove(["r"], None) == Removed()
        assert await world.store.remove(["r"], None, is_asked=True) == Removed(1, 1, 3)
        assert await world.store.get("r") is None
        assert await world.store.history("r") == []
        assert list(await world.store.exposures("r")) == []
        assert isinstance(await world.store.send(signal("r", "m")), Missing)
        assert await world.store.remove(["r"], None, is_asked=True) == Removed()
        assert [run.id for run in await world.runs()] == ["other"]
        again = await world.held_run("r")
        assert (await again.commits(DONE)).seq > newest
        await world.verify()

    async def test_a_run_that_ended_a_moment_ahead_is_removed(self, world: World) -> None:
        """Contract: a clock that was set back since the run ended does not keep it."""
        await world.ended_run("r")
        world.clock.set(world.clock.now() - seconds(60))
        assert (await world.store.remove(["r"], None, is_asked=True)).runs == 1

    async def test_a_tree_with_an_open_run_stays_whole(self, world: World) -> None:
        """Contract: it stays while its root or a descendant is open, and cannot be removed through a child; then it is
        removed as a whole."""
        parent = await world.held_run("p")
        await parent.commits(children=(parent.child("p/a", "a"),))
        before = await world.dump()
        for name in ("p", "p/a", "nobody"):
            assert await world.store.remove([name], None, is_asked=True) == Removed()
        assert await world.dump() == before
        await parent.commits(DONE)
        assert await world.store.remove(["p"], None, is_asked=True) == Removed()
        child = await world.holder("p/a")
        await child.commits(DONE)
        before = await world.dump()
        assert await world.store.remove(["p/a"], None, is_asked=True) == Removed()
        assert await world.dump() == before
        removed = await world.store.remove(["p"], None, is_asked=True)
        assert (removed.trees, removed.runs) == (1, 2)
        assert await world.runs() == []

    async def test_blobs_follow_after_their_grace(self, world: World) -> None:
        """Contract: the references go with the run; a blob that another run refers to stays for it."""
        own = b'"own"'
        blobs = {NAME: BIG, hash_of(own): own}
        for name in ("a", "b"):
            holder = await world.held_run(name)
            await holder.commits(e.StepCompleted(key="s", blob=NAME), blobs={NAME: BIG})
            if name == "a":
                await holder.commits(e.StepCompleted(key="t", blob=hash_of(own)), blobs={hash_of(own): own})
                await holder.commits(DONE)
        world.clock.advance(GRACE * 2)
        assert (await world.store.remove(["a"], None, is_asked=True)).runs == 1
        assert (await world.store.collect(GRACE)).names == ()
        assert dict(await world.store.get_blobs(blobs)) == blobs
        world.clock.advance(GRACE + seconds(1))
        assert (await world.store.collect(GRACE)).names == (hash_of(own),)
        assert await world.store.get_blob(NAME) == BIG

    async def test_a_tree_is_removed_once(self, world: World) -> None:
        """Contract: of several concurrent callers at most one is told that it removed the tree, and the tree is
        gone."""
        await world.ended_run("r")
        asked = (world.store.remove(["r"], None, is_asked=True) for _ in range(4))
        assert sum(removed.trees for removed in await asyncio.gather(*asked)) == 1
        assert await world.store.get("r") is None
