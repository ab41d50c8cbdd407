"""The workers of a performance: simulations on one store, whose store access and bodies obey the stage."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, cast

from msgspec.structs import replace

from holdfast import sync
from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.memory.store import MemoryStore
from holdfast.app import App
from holdfast.authoring.components import Components
from holdfast.authoring.registry import Registry
from holdfast.authoring.script import _stdlib
from holdfast.core import events as e
from holdfast.core.messages import encode_event
from holdfast.core.passes import Beginning
from holdfast.core.program import Program
from holdfast.core.specs import Settings, StepSpec, WorkflowSpec
from holdfast.engine.bodies import Bodies, Body
from holdfast.engine.hooks import Hooks
from holdfast.errors import HoldfastError, StoreUnavailable
from holdfast.ports.inbox import Message
from holdfast.ports.journal import Answer, Commit, Committed, Verdict, sole_verdict
from holdfast.ports.leases import Taken
from holdfast.ports.parts import Appending, Flush
from holdfast.ports.runs import Creation, Made, NewRun
from holdfast.ports.store import Store
from holdfast.ports.transactions import OpenTransaction
from holdfast.testing.fake import Fake
from holdfast.testing.sim import Sim, SimWorker
from holdfast.testing.sweep.determinism import Watch
from holdfast.testing.sweep.points import body_place, row_place
from holdfast.testing.sweep.stage import Execution, Stage
from holdfast.testing.sweep.transaction_steps import Joined, joined
from holdfast.testing.sweep.watched_program import WatchedProgram
from holdfast.testing.virtual_loop import at_once
from holdfast.turn.outcome import Outcome
from holdfast.worker.worker import Worker
from holdfast.worker.worker_options import WorkerOptions

HOPS = 50
"""Passes of the event loop for which a late outcome waits, so that those of the same moment come first."""


class Actor(Sim):
    """One worker of a performance, as if in its own process."""

    def __init__(self, stage: Stage, app: App | sync.App | None, fakes: Sequence[Fake], watch: Watch) -> None:
        self.stage: Stage = stage
        self._watch = watch
        self._hand: Worker | None = None
        self.programs: list[WatchedProgram] = []
        stage.processes += 1
        self._instance = f"sim-{stage.processes}"
        super().__init__(app)
        self._loop.set_exception_handler(_ignore)
        self.is_buried: bool = False
        self._tasks: list[asyncio.Task[Any]] = []
        self._loop.set_task_factory(self._make_task)
        self.use(*fakes)

    def _make_clock(self, now: datetime) -> VirtualClock:
        return self.stage.clock

    def _make_store(self) -> MemoryStore:
        return self.stage.store

    def _hired(self, options: WorkerOptions) -> Worker:
        door = cast("Store", _Door(self.stage))
        registry = _WatchedRegistry(self, self._registry.components)
        worker = SimWorker(door, registry, self._settings, options, replaced=self._values)
        worker.engine.bodies = _StagedBodies(worker, self)
        self._hand = worker
        return worker

    def _make_task(self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **options)
        self._tasks.append(task)
        return task

    def begin(self) -> None:
        """Starts the worker, which at once takes over what an earlier one left."""
        self._started()

    @property
    def served(self) -> Registry:
        """The definitions it knows, and what flows among them call."""
        return self._registry

    def watched(self, program: Program) -> WatchedProgram:
        """The program, observed."""
        made = WatchedProgram(program, self.stage, self._watch)
        self.programs.append(made)
        return made

    def bury(self) -> None:
        """Ends what a killed worker left in memory; nothing of it reaches the store."""
        self.is_buried = True
        if self._hand is not None:  # it may have been killed while it started
            self._hand.forsake()
        for program in self.programs:
            program.close()
        for task in self._tasks:
            _end(task)
        self._client.close()
        self._is_closed = True
        self._loop.close()


def _end(task: asyncio.Task[Any]) -> None:
    coroutine: Any = task.get_coro()
    if not task.done():
        with suppress(RuntimeError, HoldfastError):  # it refuses to end; it will not run again
            coroutine.close()


def _ignore(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    return None


class _Door:
    """The store as a worker of a performance sees it."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._inner = stage.store
        self._is_lent = asyncio.Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def create(
        self, new: NewRun, *, key_since: datetime, instance: str = "", worker: str = "", first: Commit | None = None
    ) -> Creation:
        made = await self._inner.create(new, key_since=key_since, instance=instance, worker=worker, first=first)
        last = new.row if first is None else first.row
        place = row_place(last.run, self._stage.root, last.ordinal)
        self._stage.kill_if("after commit of", place)
        has_ended = first is not None and first.is_terminal
        if last.run == self._stage.root and isinstance(made, Made) and not has_ended:
            self._cancel_if(place)
        return made

    async def commit(self, batch: Sequence[Commit]) -> Sequence[Answer]:
        self._before(batch)
        verdicts = await self._inner.commit(batch)
        if self._after(batch, verdicts):  # sent again, as the engine does: the store knows it
            verdicts = await self._inner.commit(batch)
        return verdicts

    async def append(self, batch: Sequence[Flush]) -> Sequence[Appending]:
        root = self._stage.root
        places = [f"{body_place(x.run, root, x.step, x.attempt)} from {x.first}" for x in batch]
        for place in places:
            self._stage.kill_if("before parts of", place)
        await self._inner.append(batch)
        for place in places:
            self._stage.kill_if("after parts of", place)
        return await self._inner.append(batch)  # the first answer counts as lost: the store knows them

    async def transact(self, *, is_async: bool) -> OpenTransaction:
        await self._is_lent.acquire()
        return Joined(self._commit_joined, self._is_lent)

    async def _commit_joined(self, commit: Commit, apply: Callable[[], None]) -> Verdict:
        self._before([commit])
        verdict = sole_verdict(await self._inner.commit([commit]))
        if isinstance(verdict, Committed):
            apply()
        if self._after([commit], [verdict]):  # looked up: it is there
            verdict = sole_verdict(await self._inner.commit([commit]))
        return verdict

    def commit_now(self, commit: Commit) -> Verdict | None:
        self._before([commit])
        verdict = self._inner.commit_now(commit)
        if self._after([commit], [verdict]):
            raise StoreUnavailable("the answer was lost")
        return verdict

    def _before(self, batch: Sequence[Commit]) -> None:
        stage = self._stage
        for commit in batch:
            run = commit.row.run
            if run in stage.landed:  # then it is the crash after the body
                stage.landed.discard(run)
            else:
                stage.kill_if("before commit of", row_place(run, stage.root, commit.row.ordinal))

    def _after(self, batch: Sequence[Commit], verdicts: Sequence[Verdict | None]) -> bool:
        """Whether the answer is lost."""
        stage, is_lost = self._stage, False
        for commit, verdict in zip(batch, verdicts, strict=True):
            if not isinstance(verdict, Committed):
                continue
            run = commit.row.run
            place = row_place(run, stage.root, commit.row.ordinal)
            stage.settle(commit.row)
            stage.kill_if("after commit of", place)
            is_lost |= stage.meets("answer lost of", place)
            if not commit.is_terminal and run == stage.root:
                self._cancel_if(place)
        return is_lost

    def _cancel_if(self, place: str) -> None:
        if self._stage.meets("cancel after", place):
            event = e.CancelRequested(message="sweep", reason="cancelled by the sweep", actor="crash_sweep")
            message = Message(run=self._stage.root, id="sweep", kind="cancel", body=encode_event(event))
            at_once(self._inner.send(message))


class _StagedBodies(Bodies):
    """Bodies whose beginning and end are points of the sweep."""

    def __init__(self, worker: Worker, actor: Actor) -> None:
        super().__init__(8, Hooks((), worker.telemetry))
        self._actor = actor
        self._stage = actor.stage

    def chosen(self, spec: StepSpec) -> StepSpec:
        """The function that runs, watched for changes to its arguments."""
        found = super().chosen(spec)
        if found.executor != "process":
            found = replace(found, function=_observed(found, self._stage))
        return joined(spec, found, self._stage.outside) if spec.tx else found

    def start(self, body: Body) -> None:
        """Starts it, unless the worker is killed before."""
        stage, run, key = self._stage, body.scope.run, body.scope.key
        place = body_place(run, stage.root, key, body.scope.attempt)
        name, report = body.scope.step, body.report
        stage.kill_if("before", place, name)
        stage.executions.append(
            Execution(
                run,
                key,
                name,
                body.scope.attempt,
                body.command.spec.once,
                (run, key) in stage.settled,
            )
        )

        def landed(body: Body, outcome: Outcome) -> None:
            if self._actor.is_buried:  # a body that is ended with its killed worker
                return
            if body.is_stopping:
                report(body, outcome)
                return
            stage.kill_if("after", place, name)
            if stage.meets("lease lost in", place, name):
                _steal(stage.store, run)
            if stage.meets("two workers in", place, name):
                _outside_of_the_loop(stage.go_on)
            if len(self) > 1 and stage.meets("late", place, name):
                _later(HOPS, lambda: report(body, outcome))
                return
            stage.landed.add(run)
            report(body, outcome)

        body.report = landed
        super().start(body)


def _observed(spec: StepSpec, stage: Stage) -> Callable[..., Any]:
    """The body. One that changes an argument and returns nothing has lost its work."""

    def compare(before: bytes, value: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if value is None and spec.arguments.encode(args, kwargs) != before:
            stage.note(
                f"step {spec.name} changes its argument and returns nothing",
                "a step gets a copy of its arguments, so the workflow never sees the change: return what is changed",
            )

    async def in_loop(*args: Any, **kwargs: Any) -> Any:
        before = spec.arguments.encode(args, kwargs)
        value = await spec.function(*args, **kwargs)
        compare(before, value, args, kwargs)
        return value

    def in_thread(*args: Any, **kwargs: Any) -> Any:
        before = spec.arguments.encode(args, kwargs)
        value = spec.function(*args, **kwargs)
        compare(before, value, args, kwargs)
        return value

    return in_loop if spec.executor == "async" else in_thread


def _later(hops: int, then: Callable[[], None]) -> None:
    if hops:
        asyncio.get_running_loop().call_soon(_later, hops - 1, then)
    else:
        then()


def _steal(store: MemoryStore, run: str) -> None:
    """Takes the run and releases it, as another worker would: its earlier holder is fenced."""
    taken = at_once(store.take(run, instance="another worker", steal=True))
    if isinstance(taken, Taken):
        row = taken.run
        at_once(store.release(row.no, epoch=row.epoch, until=store.clock.now(), inbox_seen=row.inbox_read))


def _outside_of_the_loop(work: Callable[[], None]) -> None:
    """Runs other event loops while this one is inside a callback."""
    loop = _stdlib.get_running_loop()
    task = None if loop is None else asyncio.current_task(loop)
    if loop is not None and task is not None:
        _stdlib.leave_task(loop, task)
    _stdlib.set_running_loop(None)
    try:
        work()
    finally:
        _stdlib.set_running_loop(loop)
        if loop is not None and task is not None:
            _stdlib.enter_task(loop, task)


class _WatchedRegistry(Registry):
    def __init__(self, actor: Actor, components: Components) -> None:
        super().__init__(components=components)
        self._actor = actor

    def program(self, spec: WorkflowSpec, beginning: Beginning, settings: Settings) -> Program:
        return self._actor.watched(super().program(spec, beginning, settings))
