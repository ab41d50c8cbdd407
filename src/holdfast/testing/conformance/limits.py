"""Limits: places that count only while their run is held, rates by the store's clock, and fair lines."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import msgspec

from holdfast.core import events as e
from holdfast.core.limit import Demand, Rule
from holdfast.ports.journal import Park
from holdfast.ports.limits import Hold, PlaceAnswer, PlaceAsk, PlaceMove, StoredLimit
from holdfast.testing.conformance.suite import Suite
from holdfast.testing.conformance.world import DONE, START, TTL, Holder, World, seconds

TWO = Rule(at_once=2)
ONE = Rule(at_once=1)
TEN_A_SECOND = Rule(interval=100_000, burst=2)


def demand(name: str, rule: Rule, key: str = "") -> Demand:
    """A place of that limit."""
    return Demand(name, key, rule)


async def ask(world: World, holder: Holder, *demands: Demand, step: str = "price") -> bool:
    """Asks for a place. Returns whether the step may begin."""
    move = PlaceMove(no=holder.no, epoch=holder.epoch, asks=(PlaceAsk(step, demands),))
    return step in (await world.store.move_places(move)).granted


async def drop(world: World, holder: Holder, *steps: str) -> None:
    """Drops the places and waits of the steps."""
    await world.store.move_places(PlaceMove(no=holder.no, epoch=holder.epoch, drops=steps or ("price",)))


async def park(world: World, holder: Holder) -> None:
    """Releases the run, like a run that waits."""
    assert await world.store.release(holder.no, epoch=holder.epoch, until=None, inbox_seen=0)
    await world.store.move_places(PlaceMove(no=holder.no, epoch=holder.epoch, is_parked=True))


async def due(world: World, run: str) -> bool:
    """Whether the run may be claimed now."""
    at = (await world.get(run)).available_at
    return at is not None and at <= world.clock.now()


async def waits(world: World, *runs: str, rule: Rule = ONE) -> list[Holder]:
    """Runs that wait for the limit "api" in this order, released; and the holders before them."""
    found: list[Holder] = []
    for run in runs:
        holder = await world.held_run(run)
        assert not await ask(world, holder, demand("api", rule))
        await park(world, holder)
        found.append(holder)
        world.clock.advance(0.001)
    return found


class LimitsSuite(Suite):
    """Limits: places, rates and lines."""

    async def test_no_more_places_than_the_limit_allows(self, world: World) -> None:
        """Contract: of three attempts under `at_once=2` two begin, each with a place; another key has its own."""
        holders = [await world.held_run(f"r{number}") for number in range(4)]
        assert [await ask(world, each, demand("api", TWO)) for each in holders[:3]] == [True, True, False]
        assert await ask(world, holders[3], demand("api", TWO, "other"))
        (line, other) = await world.store.lines("api")
        assert (line.key, line.held, line.waiting, line.oldest) == ("", 2, 1, START)
        assert (other.key, other.held, other.waiting, other.oldest) == ("other", 1, 0, None)

    async def test_many_who_ask_together_never_get_more(self, world: World) -> None:
        """Contract: concurrent callers never get more places."""
        holders = [await world.held_run(f"r{number}") for number in range(8)]
        granted = await asyncio.gather(*(ask(world, each, demand("api", TWO)) for each in holders))
        assert sum(granted) == 2

    async def test_a_move_that_is_sent_again_takes_one_place(self, world: World) -> None:
        """Contract: after a lost answer the step has its place still."""
        first, second = [await world.held_run(f"r{number}") for number in range(2)]
        assert await ask(world, first, demand("api", TWO))
        assert await ask(world, first, demand("api", TWO))
        assert await ask(world, second, demand("api", TWO))

    async def test_a_place_that_is_given_back_wakes_the_first_waiter(self, world: World) -> None:
        """Contract: waiters are woken in the order in which they came, one per place."""
        holder = await world.held_run("r0")
        assert await ask(world, holder, demand("api", ONE))
        await waits(world, "r1", "r2", "r3")
        assert [await due(world, run) for run in ("r1", "r2", "r3")] == [False, False, False]
        await drop(world, holder)
        assert [await due(world, run) for run in ("r1", "r2", "r3")] == [True, False, False]
        again = await world.holder("r1")
        assert await ask(world, again, demand("api", ONE))
        assert not await due(world, "r2")
        await drop(world, again)
        assert await due(world, "r2")

    async def test_a_newcomer_does_not_pass_those_who_wait(self, world: World) -> None:
        """Contract: a free place belongs to the line."""
        holder = await world.held_run("r0")
        assert await ask(world, holder, demand("api", ONE))
        await waits(world, "r1")
        await drop(world, holder)
        newcomer = await world.held_run("r2")
        assert not await ask(world, newcomer, demand("api", ONE))
        assert await ask(world, await world.holder("r1"), demand("api", ONE))

    async def test_a_run_that_lost_its_lease_frees_its_places(self, world: World) -> None:
        """Contract: a place counts only while its run is held; a waiter is woken without any action of the holder."""
        holder = await world.held_run("r0")
        assert await ask(world, holder, demand("api", ONE))
        await waits(world, "r1")
        await world.worker("i2")
        world.clock.advance(TTL.total_seconds() + 1)
        world.store.heart("i2", TTL).beat()
        assert (await world.get("r0")).instance == ""
        assert await world.store.tend_limits()
        assert await due(world, "r1")
        assert await ask(world, await world.holder("r1", instance="i2"), demand("api", ONE))

    async def test_a_fenced_holder_gets_no_place(self, world: World) -> None:
        """Contract: with an epoch that has moved on nothing is granted, and what it had is free."""
        holder = await world.held_run("r0")
        assert await ask(world, holder, demand("api", ONE))
        worker = await world.worker("i2")
        assert await world.store.take("r0", instance=worker.instance, steal=True)
        move = PlaceMove(no=holder.no, epoch=holder.epoch, asks=(PlaceAsk("next", (demand("free", ONE),)),))
        assert await world.store.move_places(move) == PlaceAnswer((), is_ours=False)
        assert await ask(world, await world.held_run("r1"), demand("api", ONE))

    async def test_the_end_of_a_run_frees_its_places(self, world: World) -> None:
        """Contract: an ended run holds nothing, and waits for nothing."""
        holder = await world.held_run("r0")
        assert await ask(world, holder, demand("api", ONE))
        (waiter,) = await waits(world, "r1")
        await holder.commits(DONE)
        await world.store.tend_limits()
        assert await due(world, "r1")
        again = await world.holder(waiter.id)
        await again.commits(DONE)
        assert await world.store.tend_limits()
        assert not await world.store.tend_limits()
        assert list(await world.store.lines("api")) == []

    async def test_a_rate_admits_a_burst_and_then_one_per_interval(self, world: World) -> None:
        """Contract: never more than window / interval + burst begin in any window, by the store's clock."""
        admitted = 0
        for number in range(6):
            admitted += await ask(world, await world.held_run(f"r{number}"), demand("api", TEN_A_SECOND))
        assert admitted == 2
        world.clock.advance(0.5)
        await world.store.tend_limits()
        again = [
            await ask(world, await world.reader(await world.get(f"r{n}")), demand("api", TEN_A_SECOND))
            for n in (2, 3, 4)
        ]
        assert again == [True, True, False]

    async def test_a_waiter_of_a_rate_is_due_when_its_token_is(self, world: World) -> None:
        """Contract: waiters of a rate are woken one after another, at the time of their tokens, without a poll."""
        for number in range(2):
            assert await ask(world, await world.held_run(f"r{number}"), demand("api", TEN_A_SECOND))
        at = world.clock.now()
        await waits(world, "r2", "r3", rule=TEN_A_SECOND)
        rows = [await world.get(run) for run in ("r2", "r3")]
        assert [row.available_at for row in rows] == [
            at + timedelta(milliseconds=100),
            at + timedelta(milliseconds=200),
        ]

    async def test_a_newcomer_takes_a_token_for_which_nobody_comes(self, world: World) -> None:
        """Contract: once more than half of a burst has gathered, those who were woken are late, and tokens would be
        lost: a newcomer takes one, and leaves the rest to them. A burst of one has nothing to spare."""
        for name, rule in (("api", TEN_A_SECOND), ("single", Rule(interval=100_000))):
            first = [await world.held_run(f"{name}-{number}") for number in range(rule.burst + 1)]
            asked = [await ask(world, each, demand(name, rule)) for each in first]
            assert asked == [True] * rule.burst + [False]
            await park(world, first[-1])
        world.clock.advance(0.15)
        newcomers = [await world.held_run(f"new-{number}") for number in range(4)]
        assert not await ask(world, newcomers[0], demand("api", TEN_A_SECOND))
        world.clock.advance(0.1)
        assert [await ask(world, each, demand("api", TEN_A_SECOND)) for each in newcomers[1:3]] == [True, False]
        assert not await ask(world, newcomers[3], demand("single", Rule(interval=100_000)))
        assert await ask(world, await world.holder("api-2"), demand("api", TEN_A_SECOND))

    async def test_waiters_that_are_woken_are_claimed_before_runs_that_were_started_later(self, world: World) -> None:
        """Contract: a backlog of runs that have not begun does not keep a line from moving."""
        worker = await world.worker()
        for number in range(2):
            assert await ask(world, await world.held_run(f"r{number}"), demand("api", TEN_A_SECOND))
        first = [await world.held_run(run) for run in ("r2", "r3")]
        for run in ("n1", "n2", "n3"):
            world.clock.advance(0.001)
            await world.make(run)
        for each in first:
            assert not await ask(world, each, demand("api", TEN_A_SECOND))
            await park(world, each)
        world.clock.advance(0.25)
        (row,) = (await world.claim(worker, limit=1)).runs
        assert row.id == "n1"
        newcomer = await world.reader(row)
        assert await ask(world, newcomer, demand("api", TEN_A_SECOND))
        assert not await ask(world, newcomer, demand("api", TEN_A_SECOND), step="next")
        assert await world.claimed_ids(worker, limit=3) == ["r2", "r3", "n2"]

    async def test_several_limits_are_taken_all_or_none(self, world: World) -> None:
        """Contract: a waiter holds nothing, whichever of its limits refused it."""
        holder = await world.held_run("r0")
        assert await ask(world, holder, demand("b", ONE))
        both = await world.held_run("r1")
        assert not await ask(world, both, demand("a", ONE), demand("b", ONE))
        third = await world.held_run("r2")
        assert await ask(world, third, demand("a", ONE))
        await drop(world, third)
        await drop(world, holder)
        assert await ask(world, both, demand("a", ONE), demand("b", ONE))
        assert not await ask(world, third, demand("a", ONE))

    async def test_a_waiter_that_is_woken_does_not_wait_again_in_a_line_it_has_passed(self, world: World) -> None:
        """Contract: a place that is free for it does not stay free because others wait in a line before."""
        holders = [await world.held_run(f"r{number}") for number in range(4)]
        assert await ask(world, holders[0], demand("b", ONE))
        assert await ask(world, holders[1], demand("c", ONE))
        other, waiter = await world.held_run("other"), await world.held_run("waiter")
        assert not await ask(world, other, demand("a", TWO), demand("c", ONE))
        await park(world, other)
        world.clock.advance(0.001)
        assert not await ask(world, waiter, demand("a", TWO), demand("b", ONE))
        await park(world, waiter)
        assert [await ask(world, each, demand("a", TWO)) for each in holders[2:]] == [True, True]
        await drop(world, holders[1])
        other = await world.holder("other")
        assert not await ask(world, other, demand("a", TWO), demand("c", ONE))  # it waits for "a" now, as the first
        await park(world, other)
        for each in (holders[0], *holders[2:]):
            await drop(world, each)
        assert await ask(world, await world.holder("waiter"), demand("a", TWO), demand("b", ONE))
        assert await ask(world, await world.holder("other"), demand("a", TWO), demand("c", ONE))

    async def test_a_paused_run_keeps_its_turn_and_is_passed_over(self, world: World) -> None:
        """Contract: others are served meanwhile; after its resume it is before those that came later."""
        holder = await world.held_run("r0")
        assert await ask(world, holder, demand("api", ONE))
        paused = await world.held_run("r1")
        assert not await ask(world, paused, demand("api", ONE))
        await paused.commits(e.Paused(reason="operator"), park=Park(None))
        world.clock.advance(0.001)
        await waits(world, "r2", "r3")
        await drop(world, holder)
        assert await due(world, "r2")
        second = await world.holder("r2")
        assert await ask(world, second, demand("api", ONE))
        taken = await world.store.take("r1", instance="i1")
        resumed = await world.reader(taken.run)  # type: ignore[union-attr]
        await resumed.commits(e.Resumed())
        await drop(world, second)
        assert await ask(world, resumed, demand("api", ONE))

    async def test_a_woken_run_that_is_paused_has_had_its_turn(self, world: World) -> None:
        """Contract: a run that is paused after it was woken delays no other when resumed and asks for nothing."""
        holder = await world.held_run("r0")
        assert await ask(world, holder, demand("api", ONE))
        await waits(world, "r1")
        await drop(world, holder)
        woken = await world.holder("r1")
        await woken.commits(e.Paused(reason="operator"), park=Park(None))
        world.clock.advance(2.5)
        await world.store.tend_limits()
        taken = await world.store.take("r1", instance="i1")
        await (await world.reader(taken.run)).commits(e.Resumed())  # type: ignore[union-attr]
        assert await ask(world, await world.held_run("r2"), demand("api", ONE))

    async def test_a_waiter_that_does_not_come_is_passed(self, world: World) -> None:
        """Contract: a run that no worker claims does not block its line."""
        holder = await world.held_run("r0")
        assert await ask(world, holder, demand("api", ONE))
        await waits(world, "r1", "r2")
        await drop(world, holder)
        assert await due(world, "r1")
        world.clock.advance(2.5)
        await world.store.tend_limits()
        assert await due(world, "r2")

    async def test_a_waiter_that_was_woken_before_it_was_parked_is_due(self, world: World) -> None:
        """Contract: no wake-up is lost between the refusal and the parking."""
        holder = await world.held_run("r0")
        assert await ask(world, holder, demand("api", ONE))
        waiter = await world.held_run("r1")
        assert not await ask(world, waiter, demand("api", ONE))
        await drop(world, holder)
        await park(world, waiter)
        assert await due(world, "r1")

    async def test_a_waiter_whose_wake_up_was_lost_is_woken_again(self, world: World) -> None:
        """Contract: also if the worker died between parking and saying so."""
        holder = await world.held_run("r0")
        assert await ask(world, holder, demand("api", ONE))
        waiter = await world.held_run("r1")
        assert not await ask(world, waiter, demand("api", ONE))
        await drop(world, holder)
        assert await world.store.release(waiter.no, epoch=waiter.epoch, until=None, inbox_seen=0)
        assert not await due(world, "r1")
        world.clock.advance(2.5)
        await world.store.tend_limits()
        assert await due(world, "r1")

    async def test_a_waiter_leaves_the_line(self, world: World) -> None:
        """Contract: a step that is no longer wanted waits no more, and the next one is first."""
        holder = await world.held_run("r0")
        assert await ask(world, holder, demand("api", ONE))
        first, _ = await waits(world, "r1", "r2")
        await drop(world, first)
        await drop(world, holder)
        assert not await due(world, "r1")
        assert await due(world, "r2")

    async def test_a_hold_quiets_its_line(self, world: World) -> None:
        """Contract: nothing begins before the time; other keys are not affected."""
        holder = await world.held_run("r0")
        assert await ask(world, holder, demand("api", TWO))
        hold = Hold("api", "", START + seconds(60))
        await world.store.move_places(PlaceMove(no=holder.no, epoch=holder.epoch, drops=("price",), holds=(hold,)))
        waiter = await world.held_run("r1")
        assert not await ask(world, waiter, demand("api", TWO))
        assert await ask(world, await world.held_run("r2"), demand("api", TWO, "other"))
        await park(world, waiter)
        assert (await world.get("r1")).available_at == START + seconds(60)

    async def test_what_the_store_says_of_a_limit_counts(self, world: World) -> None:
        """Contract: a row changes the rule for every worker, at once, also for those who wait."""
        holder = await world.held_run("r0")
        assert await ask(world, holder, demand("api", ONE))
        await waits(world, "r1")
        known = await world.store.limit("api")
        assert known == StoredLimit(name="api", revision=1, rule=ONE, body=b"{}")  # as it was first asked for
        assert known is not None
        stored = msgspec.structs.replace(known, rule=TWO, body=b"by hand")
        assert await world.store.put_limit(stored)
        assert await due(world, "r1")
        assert await world.store.limit("api") == msgspec.structs.replace(stored, revision=2)
        assert not await world.store.put_limit(stored)
        assert not await world.store.put_limit(msgspec.structs.replace(stored, revision=0))
        assert await world.store.put_limit(msgspec.structs.replace(stored, revision=2, is_paused=True))
        assert not await ask(world, await world.holder("r1"), demand("api", TWO))
        assert [each.name for each in await world.store.limits()] == ["api"]

    async def test_the_busiest_lines_come_first_with_who_holds_them(self, world: World) -> None:
        """Contract: most waiters first, then most places, then by key; the places of a lost holder are not shown."""
        holders = [await world.held_run(f"r{number}") for number in range(8)]
        assert await ask(world, holders[0], demand("api", TWO, "a"))
        assert await ask(world, holders[1], demand("api", TWO, "b"))
        assert await ask(world, holders[2], demand("api", TWO, "b"), step="pack")
        assert await ask(world, holders[3], demand("api", TWO, "c"))
        assert await ask(world, holders[4], demand("api", TWO, "c"))
        assert not await ask(world, holders[5], demand("api", TWO, "c"))
        assert await ask(world, holders[6], demand("api", TWO, "d"))
        assert await ask(world, holders[7], demand("other", ONE, "c"))
        found = await world.store.busiest("api")
        assert [(one.line.key, one.line.held, one.line.waiting) for one in found] == [
            ("c", 2, 1),
            ("b", 2, 0),
            ("a", 1, 0),
            ("d", 1, 0),
        ]
        assert [(place.run, place.step, place.ahead) for place in found[1].places] == [
            ("r1", "price", None),
            ("r2", "pack", None),
        ]
        (first,) = await world.store.busiest("api", limit=1, places=0)
        assert (first.line, first.places) == (found[0].line, ())
        await park(world, holders[1])
        busy = {one.line.key: [place.run for place in one.places] for one in await world.store.busiest("api")}
        assert busy == {"a": ["r0"], "b": ["r2"], "c": ["r3", "r4"], "d": ["r6"]}
        assert list(await world.store.busiest("unknown")) == []

    async def test_what_a_run_has_and_waits_for_is_shown(self, world: World) -> None:
        """Contract: places, and the number of those before it in its line."""
        holder = await world.held_run("r0")
        assert await ask(world, holder, demand("api", ONE))
        await waits(world, "r1", "r2")
        (place,) = await world.store.places_of("r0")
        assert (place.step, place.name, place.key, place.ahead) == ("price", "api", "", None)
        assert [(each.ahead, each.name) for each in await world.store.places_of("r2")] == [(1, "api")]
        assert list(await world.store.places_of("nobody")) == []
