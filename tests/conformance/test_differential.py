"""The same random operations on the memory store and on another: verdicts, rows, journals and inboxes stay equal.

The memory store is the obvious model. Whatever both ports show is compared after every operation; what they may
legitimately choose for themselves is left out: numbers of runs, gaps in seq, the wording of notes, and the ids of the
messages that they make up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.core import events as e
from holdfast.core.status import Status
from holdfast.core.turn import Row
from holdfast.ports.inbox import Unconsumed
from holdfast.ports.journal import Commit, Committed, Park
from holdfast.ports.leases import Taken, WorkerRow
from holdfast.ports.runs import Filter, RunRow
from holdfast.ports.store import Store
from tests.conformance.conftest import open_store
from tests.conformance.world import (
    BOOM,
    DONE,
    START,
    STOPPED,
    TOPICS,
    TTL,
    Holder,
    World,
    publication,
    seconds,
    signal,
)

RUNS = ("r0", "r1", "r2", "r3", "r4")
INSTANCES = ("i0", "i1", "i2")
WORKFLOWS = ("order", "parcel")
DEFINITIONS = tuple((workflow, version) for workflow in (*WORKFLOWS, "stray") for version in ("", "2"))

runs = st.sampled_from(RUNS)
instances = st.sampled_from(INSTANCES)
index = st.integers(0, 50)
delays = st.sampled_from([None, 0, 3, 30])
messages = st.sampled_from([f"m{count}" for count in range(6)])
topics = st.sampled_from(TOPICS)
keys = st.sampled_from(["k1", "k2"])


@dataclass(frozen=True)
class Plan:
    """What a turn is to do, the same for both stores."""

    what: str
    parks: bool
    delay: int | None
    sees: bool
    consumes: bool
    child: str
    child_workflow: str
    message: tuple[str, str] | None
    publishes: str
    watch: tuple[tuple[str, str], ...]
    unwatch: tuple[str, ...]
    exposes: bool


plans = st.builds(
    Plan,
    what=st.sampled_from(["go on", "go on", "go on", "pause", "complete", "fail", "cancel"]),
    parks=st.booleans(),
    delay=delays,
    sees=st.booleans(),
    consumes=st.booleans(),
    child=st.sampled_from(["", "", *RUNS]),
    child_workflow=st.sampled_from(WORKFLOWS),
    message=st.none() | st.tuples(st.sampled_from([*RUNS, "nobody"]), messages),
    publishes=st.sampled_from(["", "", *TOPICS]),
    watch=st.lists(st.tuples(topics, keys), max_size=2, unique_by=lambda wait: wait[1]).map(tuple),
    unwatch=st.lists(keys, max_size=1).map(tuple),
    exposes=st.booleans(),
)


def planned(holder: Holder, plan: Plan, inbox_last: int) -> Commit | None:
    """The turn, if the run as its holder knows it can take it."""
    run, now = holder.run, holder.world.clock.now()
    if run.end is not None:
        return None
    events: list[e.AnyEvent] = []
    if run.status is Status.PAUSED:
        events.append(e.Resumed())
    match plan.what:
        case "pause":
            events.append(e.Paused(reason="operator"))
        case "complete":
            events.append(DONE)
        case "fail":
            events.append(BOOM)
        case "cancel":
            events.append(STOPPED)
        case _:
            pass
    if plan.exposes:
        events.insert(0, e.Exposed(name="progress", value=msgspec.Raw(b"%d" % run.ordinal)))
    child = holder.child(plan.child, f"c{run.ordinal}", plan.child_workflow) if plan.child else None
    until = None if plan.delay is None else now + seconds(plan.delay)
    return holder.turn(
        *events,
        inbox_seen=inbox_last if plan.sees else 0,
        is_consuming=plan.consumes,
        children=(child,) if child else (),
        messages=(signal(*plan.message),) if plan.message else (),
        publications=(publication(plan.publishes, f"p{run.ordinal}-{holder.id}"),) if plan.publishes else (),
        watch=plan.watch,
        unwatch=plan.unwatch,
        park=Park(until) if plan.parks else None,
    )


def comparable(value: Any) -> Any:
    """The value without what a store may choose for itself."""
    match value:
        case RunRow():
            return msgspec.structs.replace(value, no=0, note="" if not value.note else "some")
        case Row():
            return msgspec.structs.replace(value, seq=0)
        case Committed():
            return ("Committed", value.inbox_last)
        case Unconsumed():
            return (value.no, value.kind, value.body if value.kind != "child" else _ending(value.body))
        case Commit() | Holder():
            raise AssertionError("these are questions, not answers")
        case msgspec.Struct():
            return (type(value).__name__, *(comparable(getattr(value, name)) for name in value.__struct_fields__))
        case dict():
            return {key: comparable(each) for key, each in value.items()}
        case list() | tuple():
            return [comparable(each) for each in value]
        case _:
            return value


def _ending(body: bytes) -> Any:
    ended = msgspec.json.decode(body, type=e.ChildEnded)
    failure = ended.failure and ended.failure.type
    return (ended.key, ended.run, ended.status, bytes(ended.value), ended.blob, ended.ended_at, failure)


class Twins(RuleBasedStateMachine):
    """Two stores, asked the same."""

    def __init__(self) -> None:
        super().__init__()
        self.resources = ExitStack()
        self.worlds: list[World] = []
        self.holders: list[list[Holder]] = [[], []]
        self.sent: list[list[Commit]] = [[], []]
        self.order: list[list[tuple[str, int]]] = []

    def open_both(self) -> None:
        """Fresh stores on clocks that move together."""
        self.runner = self.resources.enter_context(asyncio.Runner())
        for kind in ("memory", "sqlite"):
            clock = VirtualClock(START)
            store = self.runner.run(open_store(kind, None, clock))
            self.resources.callback(self.close, store)
            self.worlds.append(World(store, clock))

    def close(self, store: Store) -> None:
        self.runner.run(store.close())

    def teardown(self) -> None:
        self.resources.close()

    def both(self, ask: Callable[[World], Awaitable[Any]]) -> list[Any]:
        """Asks both worlds and compares the answers."""

        async def asked(world: World) -> Any:
            return await ask(world)

        answers = [self.runner.run(asked(world)) for world in self.worlds]
        assert comparable(answers[0]) == comparable(answers[1])
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
        if answers[0].run.instance and answers[0].run.next_ordinal == 2:
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
        self.register("i0", "w0", DEFINITIONS, takes_over=False)
        self.register("i1", "w1", DEFINITIONS[:4], takes_over=False)
        for run, workflow in (("r0", "order"), ("r1", "parcel"), ("r2", "order")):
            self.create(run, workflow, "", "", 0, None, "", 0)
        self.claim("i0", limit=2)

    @rule(
        instance=instances,
        worker=st.sampled_from(["w0", "w1"]),
        definitions=st.sampled_from([DEFINITIONS[:4], DEFINITIONS[:1], DEFINITIONS]),
        takes_over=st.booleans(),
    )
    def register(
        self, instance: str, worker: str, definitions: tuple[tuple[str, str], ...], *, takes_over: bool
    ) -> None:
        def ask(world: World) -> Awaitable[Any]:
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
            return world.store.register(row, TTL, takes_over=takes_over)

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

    @rule(instance=instances, limit=st.integers(1, 3))
    def claim(self, instance: str, limit: int) -> None:
        if instance in self.worlds[0].workers:
            answers = self.both(lambda world: world.claim(world.workers[instance], limit=limit))
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
        for dump in self.both(lambda world: world.dump()):
            rows = sorted((row for rows in dump["rows"].values() for row in rows), key=lambda row: row.seq)
            self.order.append([(row.run, row.ordinal) for row in rows])
        assert self.order.pop() == self.order.pop()

    @invariant()
    def rows_are_folds(self) -> None:
        """Of the model; the other store shows the same."""
        self.runner.run(self.worlds[0].verify())


@pytest.mark.slow
def test_the_stores_cannot_be_told_apart() -> None:
    """Contract: the same operations give the same verdicts, rows, journals and inboxes on memory and SQLite."""
    pytest.importorskip("holdfast.adapters.sqlite.store", reason="no such store yet")
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(Twins, settings=settings(stateful_step_count=40))
