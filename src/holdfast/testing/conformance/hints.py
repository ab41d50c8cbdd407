"""Store: hints to listeners, the clock, and closing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from holdfast.ports.journal import Park
from holdfast.testing.conformance.suite import Suite
from holdfast.testing.conformance.world import DONE, TTL, World, publication, seconds, signal


class HintsSuite(Suite):
    """Store: hints to listeners, the clock, and closing."""

    @pytest.fixture
    def heard(self, world: World) -> Callable[[], set[str]]:
        """What a listener was told since the last call."""
        told: list[str] = []
        world.store.subscribe(told.append)

        def since() -> set[str]:
            runs = set(told)
            told.clear()
            return runs

        return since

    async def test_a_new_run_is_a_hint(self, world: World, heard: Callable[[], set[str]]) -> None:
        """Contract: listeners hear of a run that became due; not of one that was there before."""
        await world.make("r")
        assert heard() == {"r"}
        await world.create(world.new("r"))
        assert heard() == set()

    async def test_a_message_is_a_hint(self, world: World, heard: Callable[[], set[str]]) -> None:
        """Contract: listeners hear of a run whose inbox changed, by a sender or a publisher; not of a repeat."""
        holder = await world.held_run("r")
        await holder.commits(watch=(("news", "k"),))
        heard()
        await world.store.send(signal("r", "m1"))
        assert heard() == {"r"}
        await world.store.send(signal("r", "m1"))
        assert heard() == set()
        await world.store.publish(publication("news", "p1"))
        assert heard() == {"r"}

    async def test_the_end_of_a_run_is_a_hint(self, world: World, heard: Callable[[], set[str]]) -> None:
        """Contract: listeners hear of a run that ended."""
        holder = await world.held_run("r")
        heard()
        await holder.commits(DONE)
        assert "r" in heard()

    async def test_what_a_turn_sets_going_is_a_hint(self, world: World, heard: Callable[[], set[str]]) -> None:
        """Contract: listeners hear of the children, targets and watchers of a turn, and of a run parked awake."""
        watcher = await world.held_run("watcher")
        await watcher.commits(watch=(("news", "k"),), park=Park(None))
        await world.make("target")
        holder = await world.held_run("r")
        await world.store.send(signal("r", "m1"))
        heard()
        await holder.commits(
            children=(holder.child("child", "c"),),
            messages=(signal("target", "m2"),),
            publications=(publication("news", "p1"),),
            park=Park(world.clock.now() + seconds(60)),
        )
        assert heard() >= {"child", "target", "watcher", "r"}

    async def test_a_fenced_turn_gives_no_hint(self, world: World, heard: Callable[[], set[str]]) -> None:
        """Contract: hints follow writes."""
        await world.make("target")
        holder = await world.held_run("r")
        await world.store.take("r", instance="i1", steal=True)
        heard()
        await holder.commit(DONE, messages=(signal("target", "m1"),))
        assert heard() == set()

    async def test_runs_given_back_are_hints(self, world: World, heard: Callable[[], set[str]]) -> None:
        """Contract: listeners hear of runs that a release made due."""
        holder = await world.held_run("a")
        await world.held_run("b")
        heard()
        await world.store.release(holder.no, epoch=1, until=world.clock.now(), inbox_seen=0)
        assert heard() == {"a"}
        await world.store.release_all("i1")
        assert heard() == {"b"}

    async def test_an_unsubscribed_listener_hears_nothing(self, world: World) -> None:
        """Contract: unsubscribing ends the hints of that listener alone, and may be done twice."""
        first: list[str] = []
        second: list[str] = []
        unsubscribe = world.store.subscribe(first.append)
        world.store.subscribe(second.append)
        await world.make("a")
        unsubscribe()
        unsubscribe()
        await world.make("b")
        assert (first, second) == (["a"], ["a", "b"])

    async def test_a_listener_that_fails_harms_nobody(self, world: World, heard: Callable[[], set[str]]) -> None:
        """Contract: a hint may be lost, a write may not."""

        def fail(run: str) -> None:
            raise RuntimeError(f"the loop that wanted {run} is closed")

        world.store.subscribe(fail)
        await world.make("r")
        assert heard() == {"r"}
        assert (await world.get("r")).id == "r"

    async def test_a_listener_may_use_the_store(self, world: World) -> None:
        """Contract: hints come after the write, with nothing locked."""
        beats: list[tuple[str, int]] = []
        await world.worker("i1")
        heart = world.store.heart("i1", TTL)
        world.store.subscribe(lambda run: beats.append((run, heart.beat().orphaned)))
        await world.make("r")
        assert beats == [("r", 0)]

    async def test_a_store_judges_by_the_clock_it_was_given(self, world: World) -> None:
        """Contract: the store's clock is the one that expiry, timers and deadlines are judged by."""
        assert world.store.clock.now() == world.clock.now()
        assert world.store.clock.boot() == world.clock.boot()
        assert "://" in world.store.url

    async def test_own_writes_are_no_change_by_another_process(self, world: World) -> None:
        """Contract: `changes` does not grow when no other process writes."""
        await world.make("r")
        world.store.changes()
        assert world.store.changes() == world.store.changes()
