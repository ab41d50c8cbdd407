"""Leases against a small model: who holds what, under which epoch, and who may still write."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.core.events import TimerFired
from holdfast.ports.journal import Committed, Fenced
from holdfast.ports.leases import Taken, WorkerRow
from holdfast.ports.runs import RunRow
from holdfast.testing.conformance.world import DONE, START, TTL, Holder, World
from tests.conformance.test_stores import open_store

T = TypeVar("T")

INSTANCES = ("i0", "i1", "i2")
RUNS = ("r0", "r1", "r2", "r3")
MANY = 100
numbers = st.integers(0, MANY)


@dataclass
class Known:
    """A run, as the model has it."""

    epoch: int = 0
    holder: str = ""
    is_over: bool = False


class Leases(RuleBasedStateMachine):
    """Three workers and an operator on one store. Nobody is forgotten: whoever held a run once tries to write again."""

    kind = "sqlite"

    def __init__(self) -> None:
        super().__init__()
        self.resources = ExitStack()
        self.known = {run: Known() for run in RUNS}
        self.expires: dict[str, datetime] = {}
        self.holders: list[Holder] = []

    @initialize()
    def begin(self) -> None:
        self.runner = self.resources.enter_context(asyncio.Runner())
        self.clock = VirtualClock(START)
        store = self.ask(open_store(self.kind, self.clock))
        self.resources.callback(lambda: self.ask(store.close()))
        self.world = World(store, self.clock)
        self.store = store
        for run in RUNS:
            self.ask(self.world.create(self.world.new(run)))
        for instance in INSTANCES:
            self.register(instance)

    def teardown(self) -> None:
        self.resources.close()

    def ask(self, asking: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(asking)

    def is_live(self, instance: str) -> bool:
        return self.expires.get(instance, START) > self.clock.now()

    def take_up(self, row: RunRow, holder: str) -> None:
        """Somebody was given the run: nobody live may have had it, and the epoch moves on by one."""
        known = self.known[row.id]
        assert not known.is_over, f"{row.id} has ended"
        assert row.epoch == known.epoch + 1
        known.epoch, known.holder = row.epoch, holder
        self.holders.append(self.ask(self.world.reader(row)))

    # -- time and workers ----------------------------------------------------------------------------------------------

    @rule(by=st.sampled_from([1, 6, 14, 15, 40]))
    def time_passes(self, by: float) -> None:
        self.clock.advance(by)

    @rule(to=st.sampled_from([20, 86400]))
    def wall_clock_is_set(self, to: float) -> None:
        """Leases do not care. (Set back, it would put off what was available before.)"""
        moved = self.clock.now().timestamp() + to
        self.expires = {name: _moved(at, to) for name, at in self.expires.items()}
        self.clock.set(datetime.fromtimestamp(moved, START.tzinfo))

    @rule(instance=st.sampled_from(INSTANCES))
    def register(self, instance: str) -> None:
        row = WorkerRow(
            instance=instance,
            worker=f"worker of {instance}",
            queues=("default",),
            definitions=(("order", ""),),
            pid=0,
            host="here",
            started_at=self.clock.now(),
        )
        self.world.workers[instance] = row
        self.ask(self.store.register(row, TTL, takes_over="none"))
        self.renewed(instance)

    @rule(instance=st.sampled_from(INSTANCES))
    def beat(self, instance: str) -> None:
        heart = self.store.heart(instance, TTL)
        try:
            beat = heart.beat()
        finally:
            heart.close()
        assert beat.has_lapsed != self.is_live(instance)
        if beat.has_lapsed:  # as a worker does: it may have been forgotten
            self.register(instance)
        self.renewed(instance)
        for known in self.known.values():
            if known.holder and not self.is_live(known.holder):
                known.holder = ""

    def renewed(self, instance: str) -> None:
        """What a worker has after its lease was renewed is what it had, less what others took."""
        self.expires[instance] = self.clock.now() + TTL
        held = self.ask(self.store.held(instance))
        for run, known in self.known.items():
            if known.holder == instance and run not in held:
                known.holder = ""
        assert {run: each.epoch for run, each in held.items()} == self.held_by(instance)

    def held_by(self, instance: str) -> dict[str, int]:
        return {run: known.epoch for run, known in self.known.items() if known.holder == instance}

    # -- taking and giving back ----------------------------------------------------------------------------------------

    @rule(instance=st.sampled_from(INSTANCES), limit=st.integers(1, len(RUNS)))
    def claim(self, instance: str, limit: int) -> None:
        free = {run for run, known in self.known.items() if not known.holder and not known.is_over}
        dead = {run for run, known in self.known.items() if known.holder and not self.is_live(known.holder)}
        rows = self.ask(self.world.claim(self.world.workers[instance], limit=limit)).runs
        taken = {row.id for row in rows}
        assert taken <= free | dead, f"{taken - free - dead} had a live holder, or had ended"
        assert len(taken) >= min(limit, len(free)), f"{free - taken} were free"
        for row in rows:
            self.take_up(row, instance)

    @rule(run=st.sampled_from(RUNS), steal=st.booleans())
    def take(self, run: str, *, steal: bool) -> None:
        known = self.known[run]
        has_holder = bool(known.holder) and self.is_live(known.holder)
        taking = self.ask(self.store.take(run, instance="operator", steal=steal))
        assert isinstance(taking, Taken) == (not known.is_over and (steal or not has_holder))
        if isinstance(taking, Taken):
            self.take_up(taking.run, "")
            self.ask(self.store.release(taking.run.no, epoch=taking.run.epoch, until=self.clock.now(), inbox_seen=0))

    @precondition(lambda self: self.holders)
    @rule(number=numbers)
    def release(self, number: int) -> None:
        holder = self.holder(number)
        known = self.known[holder.id]
        is_mine = holder.epoch == known.epoch
        is_done = self.ask(self.store.release(holder.no, epoch=holder.epoch, until=self.clock.now(), inbox_seen=MANY))
        assert not is_done or is_mine, "given back by somebody who has lost it"
        if is_done:
            known.holder = ""

    @rule(instance=st.sampled_from(INSTANCES))
    def release_all(self, instance: str) -> None:
        self.ask(self.store.release_all(instance))
        for known in self.known.values():
            if known.holder == instance:
                known.holder = ""
        self.register(instance)

    # -- writing -------------------------------------------------------------------------------------------------------

    def holder(self, number: int) -> Holder:
        return self.holders[-1 - number % len(self.holders)]

    @precondition(lambda self: self.holders)
    @rule(number=numbers, ends=st.sampled_from([False, False, False, True]))
    def commit(self, number: int, *, ends: bool) -> None:
        holder = self.holder(number)
        known = self.known[holder.id]
        before = self.ask(self.store.history(holder.id))
        verdict = self.ask(holder.commit(*([DONE] if ends else [TimerFired(key="t")])))
        if holder.epoch == known.epoch and not known.is_over:
            assert isinstance(verdict, Committed)
            known.is_over = ends
            if ends:
                known.holder = ""
                self.holders = [each for each in self.holders if each is not holder]  # it knows
        else:
            assert isinstance(verdict, Fenced)
            assert self.ask(self.store.history(holder.id)) == before, "a fenced turn left a trace"

    # -- what always holds ---------------------------------------------------------------------------------------------

    @invariant()
    def the_store_says_who_holds_what(self) -> None:
        for run, known in self.known.items():
            lease = self.ask(self.store.lease(run))
            if lease is None:
                assert not known.holder or not self.is_live(known.holder)
            else:
                assert (lease.instance, lease.epoch) == (known.holder, known.epoch)
                assert self.is_live(lease.instance)


def _moved(at: datetime, by: float) -> datetime:
    return datetime.fromtimestamp(at.timestamp() + by, START.tzinfo)
