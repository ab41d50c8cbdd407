"""Transactions: turns and new runs in one transaction with a user's writes. For stores that have a database.

A run created in the transaction represents the borrower's own writes: it exists exactly if they do.
"""

from __future__ import annotations

import inspect
from contextlib import suppress

import pytest

from holdfast.errors import HoldfastError, InvalidInput, NotAllowedHere
from holdfast.ports.inbox import Accepted, Ended, Missing
from holdfast.ports.journal import Committed, Fenced, Unread
from holdfast.ports.runs import Creation, Existing, Made
from holdfast.ports.transactions import OpenTransaction, RolledBack
from holdfast.testing.conformance.suite import Suite
from holdfast.testing.conformance.turn_rows import KINDS, play, play_fenced
from holdfast.testing.conformance.turn_rows import within as each_within
from holdfast.testing.conformance.turn_table import Kind
from holdfast.testing.conformance.world import DONE, WINDOW, World, signal


async def begun(world: World) -> OpenTransaction:
    return await world.store.transact(is_async=True)


async def within(world: World, transaction: OpenTransaction, run: str, **facts: str) -> Creation:
    since = world.clock.now() - WINDOW
    return await world.store.create_within(transaction.connection, world.new(run, **facts), key_since=since)


async def say(transaction: OpenTransaction, statement: str) -> None:
    """Runs a statement as the borrower would."""
    answer = transaction.connection.execute(statement)
    if inspect.isawaitable(answer):
        await answer


class TransactionsSuite(Suite):
    """Transactions shared with the store."""

    async def test_turn_and_writes_commit_together(self, world: World) -> None:
        """Contract: nothing is seen before the commit, and everything after it."""
        holder = await world.held_run("r")
        transaction = await begun(world)
        assert isinstance(await within(world, transaction, "written"), Made)
        before = await world.dump()
        assert [run.id for run in before["runs"]] == ["r"]
        turn = holder.turn()
        verdict = await transaction.commit(turn)
        assert isinstance(verdict, Committed)
        assert not transaction.is_open
        assert (await world.get("r")).next_ordinal == 3
        assert (await world.get("written")).status == "pending"
        holder.accept(turn)
        await holder.commits(DONE)

    async def test_what_is_rolled_back_was_never_there(self, world: World) -> None:
        """Contract: after a rollback, awaited or not, the store is unchanged and accepts other writes."""
        holder = await world.held_run("r")
        before = await world.dump()
        for how in ("roll back", "give up"):
            transaction = await begun(world)
            await within(world, transaction, "never")
            if how == "give up":
                transaction.give_up()
                transaction.give_up()
            await transaction.roll_back()
            assert not transaction.is_open
            assert await world.dump() == before
        await holder.commits(DONE)

    async def test_a_stale_holder_keeps_nothing(self, world: World) -> None:
        """Contract: a turn of an old epoch is fenced, and everything that was written with it is undone."""
        holder = await world.held_run("r")
        await world.store.take("r", instance="i2", steal=True)
        before = await world.dump()
        transaction = await begun(world)
        await within(world, transaction, "never")
        verdict = await transaction.commit(holder.turn())
        assert isinstance(verdict, Fenced)
        assert verdict.epoch == 2
        assert not transaction.is_open
        assert await world.dump() == before

    async def test_a_turn_that_is_stored_already_is_refused(self, world: World) -> None:
        """Contract: the same turn, stored by an earlier transaction, is fenced: what is written beside it would
        otherwise exist twice."""
        holder = await world.held_run("r")
        turn = holder.turn()
        await holder.submit(turn)
        transaction = await begun(world)
        await within(world, transaction, "never")
        assert isinstance(await transaction.commit(turn), Fenced)
        assert await world.store.get("never") is None

    async def test_an_end_that_has_not_seen_everything_leaves_it_open(self, world: World) -> None:
        """Contract: an unread message refuses a terminal turn; the transaction stays open, and commits with a turn that
        has seen it."""
        holder = await world.held_run("r")
        await world.store.send(signal("r", "m1"))
        transaction = await begun(world)
        await within(world, transaction, "written")
        assert await transaction.commit(holder.turn(DONE)) == Unread(1)
        assert transaction.is_open
        verdict = await transaction.commit(holder.turn(DONE, inbox_seen=1, is_consuming=True))
        assert isinstance(verdict, Committed)
        assert (await world.get("r")).status == "completed"
        assert (await world.get("written")).status == "pending"

    async def test_what_a_turn_brings_comes_with_it(self, world: World) -> None:
        """Contract: children and messages of the turn are there with it, and listeners hear after the commit only."""
        await world.make("target")
        holder = await world.held_run("r")
        told: list[str] = []
        world.store.subscribe(told.append)
        transaction = await begun(world)
        await within(world, transaction, "written")
        assert told == []
        verdict = await transaction.commit(
            holder.turn(children=(holder.child("kid", "kid"),), messages=(signal("target", "m1"),))
        )
        assert isinstance(verdict, Committed)
        assert {"kid", "target", "written"} <= set(told)
        assert (await world.get("kid")).parent == "r"
        assert [message.id for message in await world.unread("target")] == ["m1"]

    async def test_places_rise_whatever_began_first(self, world: World) -> None:
        """Contract: a turn in a transaction that wrote before an earlier turn of the run was committed still comes
        after it."""
        holder = await world.held_run("r")
        if not world.store.is_exclusive:
            transaction = await begun(world)
            await within(world, transaction, "written")
            await holder.commits()
        else:
            await holder.commits()
            transaction = await begun(world)
        turn = holder.turn()
        assert isinstance(await transaction.commit(turn), Committed)
        holder.accept(turn)
        await holder.commits()
        seqs = [row.seq for row in await world.store.history("r")]
        assert seqs == sorted(set(seqs))

    async def test_ids_and_keys_hold_within_a_transaction(self, world: World) -> None:
        """Contract: an id or key in use gives what is there, also if this very transaction used it."""
        await world.make("r", key="k")
        transaction = await begun(world)
        used = await within(world, transaction, "r")
        keyed = await within(world, transaction, "other", key="k")
        assert isinstance(used, Existing)
        assert isinstance(keyed, Existing)
        assert (used.run.id, keyed.run.id, keyed.by) == ("r", "r", "key")
        assert isinstance(await within(world, transaction, "new", key="k2"), Made)
        again = await within(world, transaction, "newer", key="k2")
        assert isinstance(again, Existing)
        assert again.run.id == "new"
        assert isinstance(await transaction.commit(), Committed)
        assert {run.id for run in await world.runs()} == {"r", "new"}

    async def test_unique_values_hold_within_a_transaction(self, world: World) -> None:
        """Contract: a value in use gives its open run, also if this very transaction made it; and it is free again if
        the transaction is rolled back."""
        await world.make("r", unique="u")
        for ends, left in (("rolled back", {"r"}), ("committed", {"r", "new"})):
            transaction = await begun(world)
            met = await within(world, transaction, "other", unique="u")
            assert isinstance(met, Existing)
            assert (met.run.id, met.by) == ("r", "unique")
            assert isinstance(await within(world, transaction, "new", unique="v"), Made)
            again = await within(world, transaction, "newer", unique="v")
            assert isinstance(again, Existing)
            assert again.run.id == "new"
            if ends == "committed":
                assert isinstance(await transaction.commit(), Committed)
            else:
                await transaction.roll_back()
            assert {run.id for run in await world.runs()} == left
        assert isinstance(await world.create(world.new("last", unique="v")), Existing)

    async def test_a_borrower_who_ends_it_gets_nothing_committed(self, world: World) -> None:
        """Contract: if the borrower ended the transaction with its own statements, begun again or not, no turn is kept,
        and the answer says whose mistake it was, so that it is not retried."""
        holder = await world.held_run("r")
        before = await world.get("r")
        for said in (["ROLLBACK"], ["COMMIT"], ["ROLLBACK", "BEGIN"], ["COMMIT", "BEGIN"]):
            for turn in (holder.turn(), None):
                transaction = await begun(world)
                await within(world, transaction, "written")
                for statement in said:
                    with suppress(Exception):  # a store that can refuse it may do so
                        await say(transaction, statement)
                settled = await transaction.commit(turn)
                assert isinstance(settled, RolledBack), said
                assert isinstance(settled.error, NotAllowedHere), said
                assert not transaction.is_open
        assert await world.get("r") == before
        await holder.commits()

    async def test_only_its_own_connections_are_joined(self, world: World) -> None:
        """Contract: anything else is refused before anything is written, and so is a transaction that is over."""
        transaction = await begun(world)
        connection = transaction.connection
        await transaction.roll_back()
        for wrong in (object(), connection):
            with pytest.raises(InvalidInput):
                await world.store.create_within(wrong, world.new("never"), key_since=world.clock.now() - WINDOW)
        with pytest.raises(HoldfastError):
            await transaction.commit()
        assert await world.runs() == []

    async def test_a_message_is_sent_with_the_writes(self, world: World) -> None:
        """Contract: the run gets it with the commit, once for an id; an ended or unknown run is named, and the
        transaction stays usable; after a rollback nothing was sent."""
        await world.make("r")
        await world.ended_run("over")
        transaction = await begun(world)
        send = world.store.send_within
        assert await send(transaction.connection, signal("r", "m1")) == Accepted()
        assert await send(transaction.connection, signal("r", "m1")) == Accepted(is_repeat=True)
        assert isinstance(await send(transaction.connection, signal("over", "m1")), Ended)
        assert await send(transaction.connection, signal("nobody", "m1")) == Missing()
        await within(world, transaction, "fresh")
        assert await send(transaction.connection, signal("fresh", "m2")) == Accepted()
        assert await world.unread("r") == []
        assert isinstance(await transaction.commit(), Committed)
        assert [message.id for message in await world.unread("r")] == ["m1"]
        assert [message.id for message in await world.unread("fresh")] == ["m2"]
        transaction = await begun(world)
        await send(transaction.connection, signal("r", "m3"))
        await transaction.roll_back()
        assert len(await world.unread("r")) == 1
        with pytest.raises(InvalidInput):
            await send(object(), signal("r", "m4"))

    async def test_what_a_transaction_sent_is_read_in_it(self, world: World) -> None:
        """Contract: under an id, what was sent before and in the transaction itself; others see it with the commit."""
        await world.make("r")
        await world.store.send(signal("r", "m1"))
        transaction = await begun(world)
        later = signal("r", "m2", "stop", b"2")
        assert await world.store.send_within(transaction.connection, later) == Accepted()
        for message in (signal("r", "m1"), later):
            found = await world.store.sent_within(transaction.connection, "r", message.id)
            assert found is not None
            assert (found.run, found.id, found.kind, found.body) == ("r", message.id, "signal", message.body)
        assert await world.store.sent_within(transaction.connection, "r", "m3") is None
        assert await world.store.sent_within(transaction.connection, "nobody", "m1") is None
        await transaction.roll_back()
        assert await world.store.sent("r", "m2") is None
        with pytest.raises(InvalidInput):
            await world.store.sent_within(object(), "r", "m1")

    @KINDS
    async def test_what_a_turn_in_a_transaction_makes_of_its_row(self, world: World, kind: Kind) -> None:
        """Contract: the same as anywhere else."""
        await play(world, each_within, kind)

    @KINDS
    async def test_a_turn_in_a_transaction_with_a_wrong_fence_leaves_the_row(self, world: World, kind: Kind) -> None:
        """Contract: the same as anywhere else."""
        await play_fenced(world, each_within, kind)
