"""The overview of a store: capped counts, runs over time, and what is new."""

from __future__ import annotations

from datetime import timedelta

import pytest

from holdfast.core import events as e
from holdfast.core.status import Status
from holdfast.ports.runs import Filter
from holdfast.testing.conformance.runs import pages
from holdfast.testing.conformance.suite import Suite
from holdfast.testing.conformance.world import START, World, seconds


async def some(world: World) -> None:
    """Runs made at four times: r0 and r1 pending, r2 completed, r3 paused, of another workflow."""
    await world.make("r0", attributes={"shop": "7"})
    world.clock.advance(seconds(10))
    await world.make("r1", queue="slow")
    world.clock.advance(seconds(10))
    await world.ended_run("r2")
    world.clock.advance(seconds(10))
    await world.worker("ip", definitions=(("parcel", ""),))
    holder = await world.held_run("r3", instance="ip", workflow="parcel")
    await holder.commits(e.Paused(reason="operator"))


def counted(found: dict[Status, int]) -> dict[str, int]:
    assert set(found) == set(Status)
    return {status.value: count for status, count in found.items() if count}


class OverviewSuite(Suite):
    """Overview: capped counts, runs over time, and what is new."""

    async def test_a_list_can_begin_with_the_oldest(self, world: World) -> None:
        """Contract: the same runs in reverse order, with cursors that are exact among equal times."""
        for name in "ab":
            await world.make(name)
        world.clock.advance(1)
        for name in "cde":
            await world.make(name)
        for size in (1, 2, 10):
            listed = [run for page in await pages(world, Filter(is_oldest_first=True), size) for run in page]
            assert listed == ["a", "b", "c", "d", "e"]
        pending = Filter(is_oldest_first=True, statuses=(Status.PENDING,), workflow="order")
        assert await pages(world, pending, 3) == [["a", "b", "c"], ["d", "e"]]

    async def test_a_tally_counts_what_a_filter_lets_through(self, world: World) -> None:
        """Contract: each status on its own, up to the cap; statuses that the filter leaves out have none."""
        await some(world)
        tally = world.store.tally
        assert counted(await tally(Filter(), at_most=10)) == {"pending": 2, "completed": 1, "paused": 1}
        assert counted(await tally(Filter(), at_most=1)) == {"pending": 1, "completed": 1, "paused": 1}
        assert counted(await tally(Filter(workflow="parcel"), at_most=10)) == {"paused": 1}
        assert counted(await tally(Filter(attributes={"shop": "7"}), at_most=10)) == {"pending": 1}
        assert counted(await tally(Filter(statuses=(Status.PAUSED, Status.FAILED)), at_most=10)) == {"paused": 1}
        assert counted(await tally(Filter(since=START + seconds(20)), at_most=9)) == {"completed": 1, "paused": 1}

    async def test_a_list_has_bounds_in_time(self, world: World) -> None:
        """Contract: `since` is inclusive, `until` is not; both hold for pages too."""
        await some(world)
        between = Filter(since=START + seconds(10), until=START + seconds(30))
        page = await world.store.list(between, limit=1)
        assert [run.id for run in page.runs] == ["r2"]
        page = await world.store.list(between, after=page.next, limit=1)
        assert ([run.id for run in page.runs], page.next) == (["r1"], "")

    @pytest.mark.parametrize("prefix", ["", "a", "a/", "a%", "a_", "ä", "ab"])
    async def test_a_prefix_is_taken_as_it_is(self, world: World, prefix: str) -> None:
        """Contract: no character is special, and case matters."""
        ids = ["A", "a", "a/1", "a%1", "a_1", "ax", "ab", "ä1", "a\U0001f600"]
        for name in ids:
            await world.make(name)
        found = {run.id for run in (await world.store.list(Filter(prefix=prefix))).runs}
        assert found == {name for name in ids if name.startswith(prefix)}

    async def test_runs_are_spread_over_time(self, world: World) -> None:
        """Contract: by the time they were made and by status, empty buckets too; what lies outside is left out."""
        await some(world)
        spread = await world.store.spread(
            Filter(), since=START + seconds(5), width=timedelta(seconds=10), buckets=4, at_most=100
        )
        assert [counted(bucket) for bucket in spread.buckets] == [{"pending": 1}, {"completed": 1}, {"paused": 1}, {}]
        assert not spread.is_capped
        narrow = await world.store.spread(
            Filter(queue="slow"), since=START, width=timedelta(seconds=20), buckets=1, at_most=100
        )
        assert [counted(bucket) for bucket in narrow.buckets] == [{"pending": 1}]

    async def test_of_too_many_runs_the_newest_are_spread(self, world: World) -> None:
        """Contract: the answer says that it is capped."""
        await some(world)
        spread = await world.store.spread(Filter(), since=START, width=timedelta(seconds=10), buckets=4, at_most=2)
        assert [counted(bucket) for bucket in spread.buckets] == [{}, {}, {"completed": 1}, {"paused": 1}]
        assert spread.is_capped

    async def test_news_name_each_row_once(self, world: World) -> None:
        """Contract: in the order of seq, from the one that was seen last; nothing comes twice, nothing is left out."""
        begin = await world.store.final_seq()
        await some(world)
        await world.settle()
        whole = await world.store.news(after_seq=begin, limit=100)
        assert [seq for seq, _ in whole] == sorted({seq for seq, _ in whole})
        rows = [row for run in ("r0", "r1", "r2", "r3") for row in await world.store.history(run)]
        assert sorted(whole) == sorted((row.seq, row.run) for row in rows)
        pieces: list[tuple[int, str]] = []
        after = begin
        while piece := await world.store.news(after_seq=after, limit=2):
            assert len(piece) <= 2
            pieces += piece
            after = piece[-1][0]
        assert pieces == list(whole)

    async def test_what_is_final_lies_before_what_comes(self, world: World) -> None:
        """Contract: a reader that begins at `final_seq` hears of everything that is written from then on."""
        await some(world)
        await world.settle()
        seen = await world.store.final_seq()
        assert await world.store.news(after_seq=seen, limit=100) == []
        await world.make("later")
        await world.settle()
        assert [run for _, run in await world.store.news(after_seq=seen, limit=100)] == ["later"]
