"""The same random operations on the memory store and on another: verdicts, rows, journals and inboxes stay equal.

The memory store is the obvious model. Whatever both ports show is compared after every operation; what they may
legitimately choose for themselves is left out: numbers of runs, gaps in seq, the wording of notes, and the ids of the
messages that they make up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from random import Random
from typing import Any, get_args

import pytest
from hypothesis import seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.core.status import Status
from holdfast.ports.journal import Commit, Committed
from holdfast.ports.leases import Claims, Taken, TakeOver, WorkerRow
from holdfast.ports.runs import Filter, RunRow
from holdfast.ports.store import Store
from holdfast.testing.conformance.world import START, TTL, Holder, World, publication, request, seconds, signal
from tests.conformance.plans import (
    DEFINITIONS,
    INSTANCES,
    RUNS,
    WORKFLOWS,
    Plan,
    comparable,
    delays,
    index,
    instances,
    messages,
    planned,
    plans,
    runs,
    topics,
)
from tests.conformance.test_stores import open_store
from tests.support.examples import MANY, examples


class Twins(RuleBasedStateMachine):
    """Two stores, asked the same. Answers are compared at once, everything they show after some operations."""

    kind = "sqlite"
    looks_every = 1

    def __init__(self) -> None:
        self.operations = 0
        super().__init__()
        self.resources = ExitStack()
        self.worlds: list[World] = []
        self.holders: list[list[Holder]] = [[], []]
        self.sent: list[list[Commit]] = [[], []]
        self.order: list[list[tuple[str, int]]] = []

    def open_both(self) -> None:
        """Fresh stores on clocks that move together."""
        self.runner = self.resources.enter_context(asyncio.Runner())
        for kind in ("memory", self.kind):
            clock = VirtualClock(START)
            store = self.runner.run(open_store(kind, clock))
            self.resources.callback(self.close, store)
            self.worlds.append(World(store, clock))

    def close(self, store: Store) -> None:
        self.runner.run(store.close())

    def teardown(self) -> None:
        try:
            if len(self.worlds) == 2:
                self.show_the_same()
        finally:
            self.resources.close()

    def both(self, ask: Callable[[World], Awaitable[Any]]) -> list[Any]:
        """Asks both worlds and compares the answers."""

        async def asked(world: World) -> Any:
            return await ask(world)

        answers = [self.runner.run(asked(world)) for world in self.worlds]
        ours, theirs = map(comparable, answers)
        assert ours == theirs, f"{self.kind} answers {theirs}, memory {ours}"
        return answers

    def hold(self, rows: list[list[RunRow]]) -> None:
        """Remembers who holds what; nobody is forgotten, so stale holders go on writing."""
        for side, (world, taken) in enumerate(zip(self.worlds, rows, strict=True)):
            self.holders[side] += [self.runner.run(world.reader(row)) for row in taken]

    # -- time ----------------------------------------------------------------------------------------------------------

    @rule(by=st.sampled_from([0.5, 3, 6, 20, 0]))
    def time_passes(self, by: float) -> None:
        """By 0: a reboot."""
        for world in self.worlds:
            if by:
                world.clock.advance(by)
            else:
                world.clock.reboot()

    # -- clients -------------------------------------------------------------------------------------------------------

    @rule(
        run=runs,
        workflow=st.sampled_from([*WORKFLOWS, "stray"]),
        version=st.sampled_from(["", "", "2"]),
        key=st.sampled_from(["", "", "k"]),
        priority=st.integers(0, 1),
        delay=delays,
        instance=st.sampled_from(["", *INSTANCES]),
        window=st.sampled_from([0, 3, 3600]),
    )
    def create(
        self,
        run: str,
        workflow: str,
        version: str,
        key: str,
        priority: int,
        delay: int | None,
        instance: str,
        window: int,
    ) -> None:
        def ask(world: World) -> Awaitable[Any]:
            now = world.clock.now()
            at = None if delay is None else now + seconds(delay)
            new = world.new(run, workflow, version=version, key=key, priority=priority, available_at=at)
            return world.store.create(new, key_since=now - seconds(window), instance=instance, worker=instance)

        answers = self.both(ask)
        if answers[0].run.epoch and answers[0].run.instance and answers[0].run.next_ordinal == 2:
            self.hold([[answer.run] for answer in answers])

    @rule(run=st.sampled_from([*RUNS, "nobody"]), message=messages)
    def send(self, run: str, message: str) -> None:
        self.both(lambda world: world.store.send(signal(run, message)))

    @rule(topic=topics, message=messages)
    def publish(self, topic: str, message: str) -> None:
        self.both(lambda world: world.store.publish(publication(topic, message)))

    @rule(
        which=st.builds(
            Filter,
            workflow=st.sampled_from(["", *WORKFLOWS]),
            version=st.sampled_from([None, "", "2"]),
            statuses=st.lists(st.sampled_from(list(Status)), max_size=2, unique=True).map(tuple),
            parent=st.sampled_from(["", *RUNS]),
            root=st.sampled_from(["", *RUNS]),
            worker=st.sampled_from(["", *INSTANCES]),
            is_oldest_first=st.booleans(),
        ),
        limit=st.integers(1, 3),
    )
    def list_runs(self, which: Filter, limit: int) -> None:
        async def ask(world: World) -> list[list[RunRow]]:
            pages: list[list[RunRow]] = []
            after = ""
            while True:
                page = await world.store.list(which, after=after, limit=limit)
                pages.append(page.runs)
                if not page.next:
                    return pages
                after = page.next

        self.both(ask)

    # -- workers -------------------------------------------------------------------------------------------------------

    @initialize()
    def begin(self) -> None:
        """Something to do, so that few steps are spent on empty stores."""
        self.open_both()
        self.register("i0", "w0", DEFINITIONS[:4], takes_over="none")
        self.register("i1", "w1", DEFINITIONS[:4], takes_over="none")
        for run, workflow, key in (("r0", "order", "k"), ("r1", "parcel", ""), ("r2", "stray", "")):
            self.create(run, workflow, "", key, 0, None, "", 0)
        self.claim("i0", limit=2)

    @rule(
        instance=instances,
        worker=st.sampled_from(["w0", "w1"]),
        definitions=st.sampled_from([DEFINITIONS[:4], DEFINITIONS[:4], DEFINITIONS[:1], DEFINITIONS]),
        takes_over=st.sampled_from(get_args(TakeOver)),
    )
    def register(
        self, instance: str, worker: str, definitions: tuple[tuple[str, str], ...], *, takes_over: TakeOver
    ) -> None:
        async def ask(world: World) -> Any:
            row = WorkerRow(
                instance=instance,
                worker=worker,
                queues=("default",),
                definitions=definitions,
                pid=0,
                host="here",
                started_at=world.clock.now(),
            )
            world.workers[instance] = row
            return sorted(await world.store.register(row, TTL, takes_over=takes_over))

        self.both(ask)

    @rule(instance=instances)
    def beat(self, instance: str) -> None:
        async def ask(world: World) -> Any:
            heart = world.store.heart(instance, TTL)
            try:
                return heart.beat("busy")
            finally:
                heart.close()

        self.both(ask)

    @rule(instance=instances, limit=st.integers(1, 3), only=st.lists(runs, max_size=2))
    def claim(self, instance: str, limit: int, only: Sequence[str] = ()) -> None:
        async def ask(world: World) -> Claims:
            claims = await world.claim(world.workers[instance], limit=limit, only=only)
            return Claims(claims.runs, None) if only else claims  # what comes next is asked of whole queues

        if instance in self.worlds[0].workers:
            answers = self.both(ask)
            self.hold([answer.runs for answer in answers])

    @rule(run=runs, instance=st.sampled_from(["operator", *INSTANCES]), steal=st.booleans())
    def take(self, run: str, instance: str, *, steal: bool) -> None:
        answers = self.both(lambda world: world.store.take(run, instance=instance, steal=steal))
        if isinstance(answers[0], Taken):
            self.hold([[answer.run] for answer in answers])

    @precondition(lambda self: self.holders[0])
    @rule(number=index, delay=delays, sees=st.booleans(), note=st.sampled_from(["", "later"]))
    def release(self, number: int, delay: int | None, note: str, *, sees: bool) -> None:
        async def ask(world: World) -> bool:
            holder = self.holder(world, number)
            until = None if delay is None else world.clock.now() + seconds(delay)
            seen = (await world.get(holder.id)).inbox_last if sees else 0
            return await world.store.release(holder.no, epoch=holder.epoch, until=until, inbox_seen=seen, note=note)

        self.both(ask)

    @rule(instance=instances, limit=st.integers(0, 3))
    def due(self, instance: str, limit: int) -> None:
        if instance in self.worlds[0].workers:
            self.both(lambda world: world.store.due(request(world.workers[instance], limit=limit)))

    @rule(run=runs, instance=instances, epoch=st.integers(0, 3))
    def reinstate(self, run: str, instance: str, epoch: int) -> None:
        self.both(lambda world: world.store.reinstate(run, instance=instance, epoch=epoch))

    @rule(instance=instances)
    def release_all(self, instance: str) -> None:
        self.both(lambda world: world.store.release_all(instance))

    # -- turns ---------------------------------------------------------------------------------------------------------

    def holder(self, world: World, number: int) -> Holder:
        """The holder of that number, newest first."""
        holders = self.holders[self.worlds.index(world)]
        return holders[-1 - number % len(holders)]

    @precondition(lambda self: self.holders[0])
    @rule(numbers=st.lists(index, min_size=1, max_size=3), plan=plans)
    def commit(self, numbers: list[int], plan: Plan) -> None:
        async def ask(world: World) -> list[Any]:
            side = self.worlds.index(world)
            batch: dict[str, tuple[Holder, Commit]] = {}
            for number in numbers:
                holder = self.holder(world, number)
                turn = planned(holder, plan, (await world.get(holder.id)).inbox_last)
                if turn is not None:
                    batch.setdefault(holder.id, (holder, turn))
            verdicts = await world.store.commit([turn for _, turn in batch.values()])
            for (holder, turn), verdict in zip(batch.values(), verdicts, strict=True):
                self.sent[side].append(turn)
                if isinstance(verdict, Committed):
                    holder.accept(turn)
            return list(verdicts)

        self.both(ask)

    @rule(instance=instances, plan=plans)
    def claim_and_commit(self, instance: str, plan: Plan) -> None:
        self.claim(instance, limit=1)
        if self.holders[0]:
            self.commit([0], plan)

    @rule(numbers=st.lists(st.integers(0, 3), min_size=1, max_size=3), plan=plans)
    def commit_newest(self, numbers: list[int], plan: Plan) -> None:
        if self.holders[0]:
            self.commit(numbers, plan)

    @precondition(lambda self: self.sent[0])
    @rule(number=index)
    def commit_again(self, number: int) -> None:
        async def ask(world: World) -> list[Any]:
            sent = self.sent[self.worlds.index(world)]
            return list(await world.store.commit([sent[-1 - number % len(sent)]]))

        self.both(ask)

    # -- what must stay equal ------------------------------------------------------------------------------------------

    @invariant()
    def the_stores_show_the_same(self) -> None:
        self.operations += 1
        if self.operations % self.looks_every == 0:
            self.show_the_same()

    def show_the_same(self) -> None:
        for dump in self.both(lambda world: world.dump()):
            rows = sorted((row for rows in dump["rows"].values() for row in rows), key=lambda row: row.seq)
            self.order.append([(row.run, row.ordinal) for row in rows])
        assert self.order.pop() == self.order.pop()

    @invariant()
    def rows_are_folds(self) -> None:
        """Of the model; the other store shows the same."""
        self.runner.run(self.worlds[0].verify())


class TwinsOnPostgres(Twins):
    """With a server in between, every look costs a hundred round trips."""

    kind = "postgres"
    looks_every = 10


SHARES = [(Twins, part) for part in range(4)] + [(TwinsOnPostgres, part) for part in range(2)]


@pytest.mark.slow
@pytest.mark.timeout(900)  # a difference takes minutes to be made small
@pytest.mark.parametrize(("twins", "part"), SHARES, ids=[f"{twins.kind}-{part}" for twins, part in SHARES])
def test_the_stores_cannot_be_told_apart(twins: type[Twins], part: int, rng: Random) -> None:
    """Contract: the same operations give the same verdicts, rows, journals and inboxes as on the memory store."""

    @seed(rng.randrange(2**32))
    class Share(twins):  # type: ignore[valid-type, misc]
        """Traces of their own, so that the shares run side by side."""

    run_state_machine_as_test(Share, settings=settings(examples(MANY, few=12), stateful_step_count=20))
