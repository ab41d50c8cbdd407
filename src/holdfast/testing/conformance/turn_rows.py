"""Journal, continued: the truth table of a turn's effect on its run's row, for every way to write a turn."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from holdfast.core import events as e
from holdfast.ports.journal import Commit, Fenced, Unread, Verdict, sole_verdict
from holdfast.ports.transactions import RolledBack
from holdfast.testing.conformance.suite import Suite
from holdfast.testing.conformance.turn_table import TABLE, Kind, Send, Table, born
from holdfast.testing.conformance.world import World


async def alone(world: World, turns: Sequence[Commit]) -> list[Verdict]:
    """Commits each turn by itself."""
    return [sole_verdict(await world.store.commit([turn])) for turn in turns]


async def at_once(world: World, turns: Sequence[Commit]) -> list[Verdict]:
    """Commits each turn on this thread, where the store can."""
    verdicts: list[Verdict] = []
    for turn in turns:
        verdict = world.store.commit_now(turn)
        verdicts.append(sole_verdict(await world.store.commit([turn])) if verdict is None else verdict)
    return verdicts


async def together(world: World, turns: Sequence[Commit]) -> list[Verdict]:
    """Commits all turns in one transaction."""
    return [sole_verdict([answer]) for answer in await world.store.commit(turns)]


async def within(world: World, turns: Sequence[Commit]) -> list[Verdict]:
    """Commits each turn in a lent transaction."""
    verdicts: list[Verdict] = []
    for turn in turns:
        transaction = await world.store.transact(is_async=True)
        settled = await transaction.commit(turn)
        assert not isinstance(settled, RolledBack)
        if isinstance(settled, Unread):
            await transaction.roll_back()
        verdicts.append(settled)
    return verdicts


WAYS: dict[str, Send] = {"alone": alone, "at once": at_once, "together": together}
WRONG = ("epoch", "ordinal", "after", "run", "ended")
_OTHER_END = e.Cancelled(reason="an end of another turn")
KINDS = pytest.mark.parametrize("kind", TABLE, ids=lambda kind: kind.name.replace(" | ", ", "))


async def play(world: World, send: Send, kind: Kind) -> None:
    """Plays a line of the table on runs of every state, with every inbox, with and without a child."""
    table = Table(world)
    for with_child in (False, True):
        lines = await table.prepared(kind, with_child=with_child)
        verdicts = await send(world, [line.turn for line in lines])
        await asyncio.gather(*(table.check(*one) for one in zip(lines, verdicts, strict=True)))
    await table.check_claims()


async def play_fenced(world: World, send: Send, kind: Kind) -> None:
    """Plays a line of the table with a wrong fence: nothing is written, whatever the turn contains."""
    table = Table(world)
    for with_child in (False, True):
        lines = (await table.prepared(kind, with_child=with_child, befores=["running", "pending"]))[: len(WRONG)]
        wrong = [await _fenced(line.turn, how, table) for line, how in zip(lines, WRONG, strict=True)]
        verdicts = await send(world, wrong)
        for line, how, verdict in zip(lines, WRONG, verdicts, strict=True):
            now = await world.get(line.holder.id)
            assert verdict == (Fenced(0, 0) if how == "run" else Fenced(now.epoch, now.next_ordinal)), how
            if how != "ended":
                await table.check_untouched(line)
            elif line.child:
                assert await world.store.get(line.child) is None


async def _fenced(turn: Commit, how: str, table: Table) -> Commit:
    """The same turn, no longer the next one of its run."""
    row = turn.row
    match how:
        case "epoch":
            return msgspec.structs.replace(turn, row=msgspec.structs.replace(row, epoch=row.epoch - 1))
        case "ordinal":
            return msgspec.structs.replace(turn, row=msgspec.structs.replace(row, ordinal=row.ordinal + 1))
        case "after":
            return msgspec.structs.replace(turn, after=bytes(16))
        case "run":
            return msgspec.structs.replace(turn, no=10**9)
        case _:
            holder = await table.world.reader(await table.world.get(row.run))
            await holder.commits(_OTHER_END, inbox_seen=2)
            return turn


class TurnRowsSuite(Suite):
    """Journal, continued: the effect of a turn on its run's row."""

    @KINDS
    @pytest.mark.parametrize("way", list(WAYS))
    async def test_what_a_turn_makes_of_its_row(self, world: World, way: str, kind: Kind) -> None:
        """Contract: claims, holder and due time after a turn are those of the table, by the kind of turn and by whether
        a message is unread, whatever the run's state was, whatever the turn brings, and however it is sent."""
        await play(world, WAYS[way], kind)

    @KINDS
    @pytest.mark.parametrize("way", list(WAYS))
    async def test_a_turn_with_a_wrong_fence_leaves_the_row(self, world: World, way: str, kind: Kind) -> None:
        """Contract: of another epoch, ordinal, previous row or run, or of an ended run: fenced, and no trace."""
        await play_fenced(world, WAYS[way], kind)

    @KINDS
    async def test_what_a_first_turn_makes_of_a_run_made_with_it(self, world: World, kind: Kind) -> None:
        """Contract: a run that is made begun is as if it had been made, claimed and advanced, one after the other."""
        await world.worker("i1")
        table = Table(world)
        for with_child in (False, True):
            for is_shared in (False, True):
                line, verdict = await born(
                    world, kind, f"r-{with_child}-{is_shared}", with_child=with_child, is_shared=is_shared
                )
                await table.check(line, verdict)
        await table.check_claims()
