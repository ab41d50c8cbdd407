"""`Sim`: a store in memory, a worker, and a clock that the test moves.

The store is the memory adapter; engine, worker and client are the ones that run in production. Only time is virtual:
they run on an event loop that jumps to the next timer instead of waiting for it (`loop`). Every verb returns when
nothing is left to do at that moment.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Self, TypeVar

from msgspec.structs import replace

from holdfast import sync
from holdfast.adapters.memory.clock import VirtualClock
from holdfast.adapters.memory.store import MemoryStore
from holdfast.adapters.telemetry.logs import logged
from holdfast.app import App
from holdfast.authoring.handle import RunView
from holdfast.authoring.hook import Hook
from holdfast.authoring.registry import Registry
from holdfast.authoring.schedule import Schedule
from holdfast.authoring.script.channels import Channel
from holdfast.authoring.script.functions import is_a
from holdfast.authoring.script.named import named_by
from holdfast.authoring.script.resources import Resource, resources_named_by
from holdfast.authoring.script.steps import AnyStep
from holdfast.authoring.script.workflows import AnyWorkflow, Call, checked_call
from holdfast.client import schedules
from holdfast.client.client import Client
from holdfast.client.selection import Selection
from holdfast.client.start_options import IfExists, StartOptions
from holdfast.config import RecoverySettings
from holdfast.core.doing import decode_doing
from holdfast.core.durations import Duration, parse_duration
from holdfast.core.plurals import counted
from holdfast.core.queue import QueueRules
from holdfast.core.schedule import Definition
from holdfast.core.specs import Settings, StepSpec, WorkflowSpec
from holdfast.core.status import Status
from holdfast.errors import DefinitionError, HoldfastError, Stuck, UnknownWorkflow
from holdfast.ports.runs import Filter
from holdfast.ports.telemetry import Telemetry
from holdfast.testing.advice import way_on
from holdfast.testing.fake import Fake
from holdfast.testing.sim_run import SimRun
from holdfast.testing.virtual_loop import VirtualLoop, at_once, refuse_nesting
from holdfast.worker.heartbeat import Heartbeat
from holdfast.worker.worker import Worker
from holdfast.worker.worker_options import WorkerOptions

R = TypeVar("R")
T = TypeVar("T")

BEGINNING = datetime(2026, 1, 1, 12, tzinfo=UTC)
"""The default start time of a simulation."""

NEVER = timedelta(days=36_500)
"""Longer than any test moves the clock: the lease never expires, and nothing is polled."""


class _Still(Heartbeat):
    """No heartbeat: a lease in a simulation never expires, so there is nothing to renew and no thread to start."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


class SimWorker(Worker):
    """The real worker, without the part that runs by the real clock."""

    heartbeat: type[Heartbeat] = _Still


class Sim:
    """A world for one test: memory store, one worker, virtual clock. Nothing in it sleeps.

    `Sim()` serves the workflows that are started and those they name; `Sim(app)` serves those of the app, with its
    settings and resources. In pytest the fixture `sim` is one; elsewhere use `with Sim() as sim:`.
    """

    def __init__(self, app: App | sync.App | None = None, *, now: datetime = BEGINNING) -> None:
        self._clock = self._make_clock(now)
        self.store: MemoryStore = self._make_store()
        self._loop = VirtualLoop(self._clock)
        self._registry = Registry()
        self._client = Client(self.store, self._registry)
        self._client.actor = "test"
        self._worker: Worker | None = None
        self._settings = Settings()
        self._hooks: tuple[Hook, ...] = ()
        self._telemetry: Telemetry = logged()
        self._resources: list[Resource[Any]] = []
        self._steps: dict[Any, StepSpec] = {}
        self._steps_by_name: dict[str, Callable[[StepSpec], StepSpec]] = {}
        self._values: dict[int, Any] = {}
        self._schedules: dict[str, Definition] = {}
        self._queues: dict[str, QueueRules] = {}
        self._faked: dict[tuple[str, str], WorkflowSpec] = {}
        self._numbers: dict[str, Iterator[int]] = {}
        self._told_stuck: set[str] = set()
        self._is_closed = False
        if app is not None:
            inner = app.app if isinstance(app, sync.App) else app
            self._settings, self._resources = inner.settings, list(inner.resources)
            self._hooks, self._telemetry = inner.hooks, inner.telemetry
            self._schedules, self._queues = inner.declared, inner.queue_rules
            self._registry.components.update(inner.registry.components)
            self._learn(list(inner.registry))

    def __repr__(self) -> str:
        return f"<Sim at {self.now.isoformat()} with {counted(len(self._registry), 'workflow')}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- preparing -----------------------------------------------------------------------------------------------------

    def use(self, *fakes: Fake) -> None:
        """Replaces steps, resources and workflows with fakes from now on."""
        for fake in fakes:
            real = fake.real
            if real is None:
                self._steps_by_name[fake.name] = fake.in_place_of
            elif isinstance(real, AnyStep):
                self._steps[real.function] = fake.step_spec()
            elif isinstance(real, AnyWorkflow):
                self._fake_workflow(fake)
            else:
                self._values[id(real)] = fake.fake
                if self._worker is not None:
                    self._worker.surroundings.replace(real, fake.fake)

    def _fake_workflow(self, fake: Fake) -> None:
        spec = fake.workflow_spec()
        if self._registry.find(spec.name, spec.version) is not None:
            raise DefinitionError(f"sim.use(Fake({spec.name}, …)) after a run that names it was started: use it before")
        self._faked[spec.name, spec.version] = spec
        self._learn([spec])

    def serve(self, *workflows: AnyWorkflow[..., Any]) -> None:
        """Also serves these workflows. Needed for children that the code does not name, such as those imported in a
        body."""
        self._learn([spec for one in workflows for spec in one.specs()])

    # -- verbs ---------------------------------------------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        """The time of the simulation."""
        return self._clock.now()

    def start(
        self,
        call: Call[R],
        *,
        id: str | None = None,
        key: str | None = None,
        delay: Duration | None = None,
        deadline: Duration | datetime | None = None,
        queue: str = "default",
        priority: int = 0,
        attributes: Mapping[str, str] | None = None,
        if_exists: IfExists | None = None,
        unique: str | None = None,
        share: str | None = None,
        debounce: Duration | None = None,
        max_wait: Duration | None = None,
        signal: tuple[Channel[T], T] | tuple[Channel[T], T, str] | None = None,
    ) -> SimRun[R]:
        """Starts a run and runs it as far as possible without time passing. The ids are `run-1`, `run-2`, …"""
        self._check()
        checked_call(call, "sim.start")
        self._learn([call.spec])
        if self._registry.find(call.spec.name, call.spec.version) is None:
            raise UnknownWorkflow(
                f"workflow {call.spec.label} is declared with @remote, its code is elsewhere: give the simulation "
                f"a fake, sim.use(Fake({call.spec.name}, …)), or the definition, sim.serve(…)"
            )
        chosen = id or (self.next_id("run") if debounce is None else None)
        how = StartOptions(
            id=chosen, key=key, delay=delay, deadline=deadline, queue=queue, priority=priority, attributes=attributes,
            if_exists=if_exists, unique=unique, share=share, debounce=debounce, max_wait=max_wait, signal=signal,
        )  # fmt: skip
        made = self._client.start(call, how)
        return SimRun(self.call(made), self)

    def get(self, id: str, workflow: AnyWorkflow[..., R] | None = None) -> SimRun[R]:
        """The run with that id, such as a child. Raises `RunNotFound` if there is none."""
        return SimRun(self.call(self._client.get(id, workflow)), self)

    def runs(self, *, workflow: str | None = None, attributes: Mapping[str, str] | None = None) -> list[RunView]:
        """Runs, including children, in the order they were started; all of them, or those of the workflow that have
        the attributes."""
        which = Selection(workflow=workflow, attributes=attributes).filter(self.now)

        async def collect() -> list[RunView]:
            return [view async for view in self._client.runs(which)]

        return self.call(collect())[::-1]

    def publish(self, topic: Channel[T], value: T, *, id: str | None = None) -> list[str]:
        """Sends to every run waiting on the topic now; returns the ids of those it woke."""
        return self.call(self._client.publish(topic, value, id=id or self.next_id("message")))

    def schedule(self, schedule: Schedule[R]) -> sync.ScheduleHandle[R]:
        """Creates a schedule, or changes the one of that name. Its slots come with `advance`."""
        self._check()
        if isinstance(schedule, Schedule):
            self._learn([schedule.call.spec])
        return sync.ScheduleHandle(self.call(schedules.make(self._client, schedule)), self)

    def advance(self, by: Duration) -> None:
        """Lets time pass: every timer, timeout and retry within it happens, each at its own time."""
        self.pass_time(by)

    def pass_time(self, by: Duration, *, until_end_of: str = "") -> None:
        """Like `advance`, but stops when that run has ended."""
        step = parse_duration(by, what="advance")
        self._started()

        def has_ended() -> bool:
            row = at_once(self.store.get(until_end_of))
            return row is not None and row.status.is_terminal

        self._loop.settle(step, has_ended if until_end_of else None)
        self._raise_stuck()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the event loop of the simulation, and everything that follows from it."""
        self._started()
        task = self._loop.create_task(work)
        self._loop.settle()
        if not task.done():
            task.cancel()
            self._loop.settle()
            raise HoldfastError(f"{work!r} waits for time to pass, which it does in sim.advance() only")
        result = task.result()
        self._raise_stuck()
        return result

    def _raise_stuck(self) -> None:
        """Raises for a run that nothing can wake, once: it is a bug of the workflow."""
        for row in at_once(self.store.list(Filter(statuses=(Status.PAUSED,)), limit=100)).runs:
            for a in decode_doing(row.doing).now:
                if a.kind == "paused" and a.name == "stuck" and row.id not in self._told_stuck:
                    self._told_stuck.add(row.id)
                    raise Stuck(f"run {row.id}: {a.detail}", run_id=row.id, reason=a.name)

    def advice(self, view: RunView) -> str:
        """What a test can do to make that run continue."""
        ways: list[str] = []
        for a in view.doing.now:
            child = self.call(self.store.get(a.detail)) if a.kind == "child" else None
            if child is not None and not child.status.is_terminal:
                below = self.get(child.id).view()
                ways.append(f"{child.id} is {below.waiting}. {self.advice(below)}")
            else:
                ways.append(way_on(a, view.seen_at) or self._way_to_code(view))
        return " ".join(dict.fromkeys(ways)).strip()

    def _way_to_code(self, view: RunView) -> str:
        if self._registry.find(view.workflow, view.version) is not None:
            return ""
        name = view.workflow
        return f"Name its code with sim.serve({name}), or put a fake in its place with sim.use(Fake({name}, …))."

    def next_id(self, kind: str) -> str:
        """The next id of that kind: `run-1`, `run-2`, …"""
        return f"{kind}-{next(self._numbers.setdefault(kind, itertools.count(1)))}"

    def close(self) -> None:
        """Ends the simulation. The fixture does it at the end of its test."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if self._worker is not None:
                self._loop.finish(self._worker.stop(), "stopping the worker")
            self._client.close()
        finally:
            self._loop.end()

    # -- the worker ----------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        refuse_nesting()
        if self._is_closed:
            raise HoldfastError("this simulation is closed: take a new one, from the fixture `sim` or from `Sim()`")

    def _started(self) -> Worker:
        """The worker. It starts with the first verb, so that fakes are in place before resources are opened."""
        self._check()
        if self._worker is not None:
            return self._worker
        options = WorkerOptions(
            id="sim",
            is_configured=True,
            instance=self._instance,
            queues=tuple(dict.fromkeys(("default", *self._queues))),
            ttl=NEVER,
            poll=NEVER,
            look=NEVER,
            sweep=NEVER,
            patience=None,
            grace=timedelta(seconds=1),
            recovery=RecoverySettings(enabled=False),  # nothing runs by the real clock
        )
        worker = self._hired(options)
        worker.engine.chance = _no_jitter
        worker.engine.bodies.stand_ins, worker.engine.bodies.stand_ins_by_name = self._steps, self._steps_by_name
        self._loop.is_busy = lambda: len(worker.engine.bodies) > 0
        self._loop.finish(worker.start(), "starting the worker")
        resources = [*self._resources, *self._named_resources(self._registry)]
        self._loop.finish(worker.learn(self._registry, resources), "opening resources")
        self._client.serve(worker)
        self._worker = worker
        return worker

    # -- what a crash sweep does in another way ------------------------------------------------------------------------

    _instance = "sim"

    def _make_clock(self, now: datetime) -> VirtualClock:
        return VirtualClock(now)

    def _make_store(self) -> MemoryStore:
        return MemoryStore(self._clock)

    def _hired(self, options: WorkerOptions) -> Worker:
        """The worker, not yet started."""
        registry = Registry(components=self._registry.components)
        return SimWorker(
            self.store,
            registry,
            self._settings,
            options,
            replaced=self._values,
            telemetry=self._telemetry,
            hooks=self._hooks,
            schedules=self._schedules,
            queues=self._queues,
        )

    def _learn(self, specs: Iterable[WorkflowSpec]) -> None:
        """Serves these workflows and those their code names; also the steps it names, as runs."""
        named: list[object] = named_by(self._bodies_of(specs))
        steps: list[AnyStep[..., Any]] = [value for value in named if is_a(value, AnyStep)]
        self._offer(steps, besides={spec.name for spec in specs})
        found: list[AnyWorkflow[..., Any]] = [value for value in named if is_a(value, AnyWorkflow)]
        fresh: list[WorkflowSpec] = []
        for spec in [*specs, *(workflow.spec for workflow in found)]:
            chosen = self._faked.get((spec.name, spec.version), spec)
            known = self._registry.declared(spec.name, spec.version)
            self._registry.add(chosen)
            if known is not self._registry.declared(spec.name, spec.version):
                fresh.append(chosen)
        if fresh and self._worker is not None:
            self._loop.finish(self._worker.learn(fresh, self._named_resources(fresh)), "opening resources")

    def _offer(self, steps: Iterable[AnyStep[..., Any]], besides: set[str]) -> None:
        """Serves steps as runs, such as the items of a batch. A faked one opens none of the real one's resources."""
        for each in steps:
            if each.function in self._steps or each.name in self._steps_by_name:
                self._registry.add(replace(each.run_spec, bodies=()))
            elif each.name not in besides:
                self._registry.components.offer([each])

    def _named_resources(self, specs: Iterable[WorkflowSpec]) -> list[Resource[Any]]:
        """The resources of the bodies that will really run: a faked step needs none of the real one's."""
        faked = {id(function) for function in self._steps}
        return resources_named_by(self._bodies_of(spec for spec in specs if not spec.is_remote), without=faked)

    def _bodies_of(self, specs: Iterable[WorkflowSpec]) -> Iterator[Callable[..., Any]]:
        """The author's functions behind these definitions; those of a flow are what it calls."""
        for spec in specs:
            runs = (self._registry.executable(spec) if spec.style == "flow" else None) or spec
            yield from (runs.function, *runs.bodies)


def _no_jitter() -> float:
    """Retries come exactly when the policy says at the latest: 1 s, 2 s, 4 s."""
    return 0.0
