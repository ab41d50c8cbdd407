"""Journal, continued: reading the journal of a whole tree, in its total order."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.core import events as e
from holdfast.core.turn import Row
from holdfast.ports.journal import Park, Tree
from holdfast.testing.conformance.suite import Suite, shows
from holdfast.testing.conformance.world import DONE, Holder, World


async def family(world: World) -> tuple[Holder, Holder, Holder]:
    """A root, its child and its grandchild, each held, each with a turn after the others were created."""
    root = await world.held_run("root")
    await root.commits(e.ChildStarted(key="c", run="child", workflow="parcel"), children=(root.child("child", "c"),))
    child = await world.holder("child")
    await child.commits(
        e.ChildStarted(key="g", run="grandchild", workflow="parcel"), children=(child.child("grandchild", "g"),)
    )
    grandchild = await world.holder("grandchild")
    await grandchild.commits()
    await root.commits()
    await world.settle()
    return root, child, grandchild


def places(rows: list[Row]) -> list[tuple[str, int]]:
    return [(row.run, row.ordinal) for row in rows]


class TreesSuite(Suite):
    """Journal, continued: reading the journal of a whole tree, in its total order."""

    @shows("stepflow.J2", "stepflow.M19")
    async def test_a_tree_has_one_journal_in_one_order(self, world: World) -> None:
        """Contract: root, child and grandchild share one order: that of their commits."""
        await family(world)
        rows = await world.store.read_tree("root")
        assert places(rows) == [
            ("root", 1),
            ("root", 2),
            ("child", 1),
            ("child", 2),
            ("grandchild", 1),
            ("grandchild", 2),
            ("root", 3),
        ]
        seqs = [row.seq for row in rows]
        assert seqs == sorted(set(seqs))
        assert [run.root for run in await world.runs()] == ["root"] * 3

    @shows("stepflow.J2", "stepflow.R12")
    async def test_trees_are_independent(self, world: World) -> None:
        """Contract: a tree's journal holds no row of another tree, however they were written."""
        root, _, _ = await family(world)
        other = await world.held_run("other")
        await world.store.commit([other.turn(), root.turn()])
        await world.settle()
        assert {row.run for row in await world.store.read_tree("root")} == {"root", "child", "grandchild"}
        assert places(await world.store.read_tree("other")) == [("other", 1), ("other", 2)]

    @shows("stepflow.J4")
    async def test_reading_begins_with_the_row_it_is_told(self, world: World) -> None:
        """Contract: `from_seq` is inclusive, and need not be a row of the tree."""
        await family(world)
        rows = await world.store.read_tree("root")
        for place, row in enumerate(rows):
            assert await world.store.read_tree("root", from_seq=row.seq) == rows[place:]
            assert await world.store.read_tree("root", from_seq=row.seq + 1) == rows[place + 1 :]
        assert await world.store.read_tree("root", from_seq=rows[-1].seq + 10**9) == []

    @shows("stepflow.J4")
    @pytest.mark.parametrize("limit", [0, 1, 3, 7, 8])
    async def test_reading_ends_at_the_limit(self, world: World, limit: int) -> None:
        """Contract: at most `limit` rows, the first of them; none for 0."""
        await family(world)
        rows = await world.store.read_tree("root")
        assert await world.store.read_tree("root", limit=limit) == rows[:limit]

    @shows("stepflow.J4", "stepflow.J5", "stepflow.M4")
    @pytest.mark.parametrize("id", ["nobody", "child", ""])
    async def test_what_is_no_root_has_no_journal(self, world: World, id: str) -> None:
        """Contract: an unknown id and a child's id give nothing, without an error."""
        await family(world)
        assert await world.store.read_tree(id) == []
        assert await world.store.last_seq(id) is None

    @shows("stepflow.J5")
    async def test_the_newest_row_of_a_tree_is_known(self, world: World) -> None:
        """Contract: `last_seq` is that of the tree's newest row, whichever of its runs wrote it."""
        _, child, _ = await family(world)
        await world.held_run("other")
        assert await world.store.last_seq("root") == (await world.store.read_tree("root"))[-1].seq
        committed = await child.commits()
        assert await world.store.last_seq("root") == committed.seq

    @shows("stepflow.J1", "stepflow.J15")
    async def test_a_reader_goes_on_from_the_last_row_it_saw(self, world: World) -> None:
        """Contract: pages from the last seq on, however small, give every row once and in order, and end."""
        root, child, _ = await family(world)
        seen: list[Row] = []
        while True:
            page = await world.store.read_tree("root", from_seq=seen[-1].seq if seen else 0, limit=2)
            fresh = page[1:] if seen else page
            if not fresh:
                break
            seen += fresh
            if len(seen) == 4:
                await world.store.commit([child.turn(), root.turn()])
                await world.settle()
        assert seen == await world.store.read_tree("root")
        assert len(seen) == 9

    @shows("stepflow.J1", "stepflow.J15")
    async def test_rows_of_concurrent_writers_are_not_passed_over(self, world: World) -> None:
        """Contract: a reader that follows while others commit sees every row of the tree once, in order."""
        root = await world.held_run("root")
        names = [f"child{count}" for count in range(4)]
        await root.commits(
            *(e.ChildStarted(key=name, run=name, workflow="parcel") for name in names),
            children=tuple(root.child(name, name) for name in names),
        )
        holders = [root, *[await world.holder(name) for name in names]]
        await world.settle()
        seen: list[Row] = await world.store.read_tree("root")

        async def write(holder: Holder) -> None:
            for _ in range(10):
                await holder.commits()

        async def follow() -> None:
            while len(seen) < 6 + 50:
                seen.extend((await world.store.read_tree("root", from_seq=seen[-1].seq, limit=7))[1:])
                await asyncio.sleep(0)

        async with asyncio.timeout(60):
            await asyncio.gather(follow(), *map(write, holders))
        assert seen == await world.store.read_tree("root")

    @shows("stepflow.J8")
    async def test_trees_with_something_left_to_do_are_listed(self, world: World) -> None:
        """Contract: by root: the newest seq, how many rows, how many runs have not ended; wholly ended ones are not."""
        root, child, grandchild = await family(world)
        await world.ended_run("ended")
        await world.make("alone")
        last = await world.store.last_seq("root")
        assert last is not None
        alone = await world.store.last_seq("alone")
        assert alone is not None
        assert await world.store.trees() == [Tree("alone", alone, 1, 1), Tree("root", last, 7, 3)]
        await grandchild.commits(DONE)
        await root.commits(DONE)
        (_, tree) = await world.store.trees()
        assert (tree.rows, tree.open) == (9, 1)
        await child.commits(DONE)
        assert [tree.root for tree in await world.store.trees()] == ["alone"]

    @shows("stepflow.J8")
    async def test_trees_are_listed_page_by_page(self, world: World) -> None:
        """Contract: by id, at most `limit`, from after `after` on."""
        for name in ("c", "a", "e", "b", "d"):
            await world.make(name)
        found: list[str] = []
        while page := await world.store.trees(after=found[-1] if found else "", limit=2):
            assert len(page) <= 2
            found += [tree.root for tree in page]
        assert found == ["a", "b", "c", "d", "e"]

    @shows("stepflow.J3", "stepflow.J11")
    async def test_rows_say_which_run_and_when(self, world: World) -> None:
        """Contract: a row read with its tree is the row read with its run: run, ordinal, epoch, time, bytes."""
        await family(world)
        rows = await world.store.read_tree("root")
        for run in await world.runs():
            assert [row for row in rows if row.run == run.id] == await world.store.history(run.id)

    async def test_a_parked_tree_is_still_open(self, world: World) -> None:
        """Contract: waiting is not ending."""
        root, child, grandchild = await family(world)
        for holder in (grandchild, child, root):
            await holder.commits(park=Park(None))
        (tree,) = await world.store.trees()
        assert tree.open == 3
