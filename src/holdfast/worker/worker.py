"""A worker: a process's right to claim and advance runs, from start-up to the last release."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from holdfast.adapters.telemetry.logs import logged
from holdfast.authoring.hook import Hook
from holdfast.authoring.registry import Registry
from holdfast.authoring.script.named import named_by
from holdfast.authoring.script.resources import Health, Resource, resources_among
from holdfast.config import RecoverySettings
from holdfast.core.durations import format_duration
from holdfast.core.events import ChildEnded
from holdfast.core.queue import QueueRules, QueueState
from holdfast.core.recovery import Kind, Recovery, encode_recovery
from holdfast.core.schedule import Definition
from holdfast.core.specs import Settings, WorkflowSpec
from holdfast.core.turn import Turn
from holdfast.engine.engine import Engine
from holdfast.engine.surroundings import WorkerSurroundings
from holdfast.errors import InvalidInput, StoreError
from holdfast.ports.facts import (
    FlowServed,
    LeaseLost,
    RunPutOff,
    RunsFreed,
    Trouble,
    WorkerLate,
    WorkerStarted,
    WorkerStopped,
    WorkerTwin,
)
from holdfast.ports.grants import Grants
from holdfast.ports.leases import Beat, ClaimRequest, Claims, TakeOver, WorkerRow
from holdfast.ports.runs import Creation, NewRun
from holdfast.ports.store import Store
from holdfast.ports.telemetry import Telemetry
from holdfast.queues.rulebook import declare_queues
from holdfast.worker.claim_loop import claim_until_stopped
from holdfast.worker.granted_claims import Granted
from holdfast.worker.heartbeat import Heartbeat
from holdfast.worker.line_loop import rules_of, tend_until_stopped
from holdfast.worker.queues import settle_until_stopped
from holdfast.worker.schedules import fire_until_stopped
from holdfast.worker.slots import Admission
from holdfast.worker.store_hints import Hints
from holdfast.worker.sweep_loop import sweep_until_stopped
from holdfast.worker.watch_loop import watch_until_stopped
from holdfast.worker.watchdog import Watchdog
from holdfast.worker.worker_options import WorkerOptions

SHORT = timedelta(seconds=5)
"""A lease below this is compared with the store's answering time."""


class Worker:
    """Claims and advances runs until it is stopped."""

    heartbeat: type[Heartbeat] = Heartbeat
    """What keeps its lease; a simulation needs no thread for it."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        settings: Settings,
        options: WorkerOptions,
        *,
        resources: Iterable[Resource[Any]] = (),
        replaced: dict[int, Any] | None = None,
        grants: Grants | None = None,
        telemetry: Telemetry | None = None,
        hooks: Sequence[Hook] = (),
        schedules: Mapping[str, Definition] | None = None,
        queues: Mapping[str, QueueRules] | None = None,
    ) -> None:
        self.store = store
        self.telemetry: Telemetry = logged() if telemetry is None else telemetry
        self.options = options
        self.registry = registry
        self.surroundings: WorkerSurroundings = WorkerSurroundings(store, self.telemetry, replaced)
        self.engine: Engine = Engine(
            store,
            registry,
            settings,
            self.surroundings,
            worker_id=options.id,
            telemetry=self.telemetry,
            hooks=hooks,
            threads=min(options.concurrency, 64),
            freed=self._freed,
            met=self.met,
        )
        self.row: WorkerRow = options.row(registry.held, store.clock.now())
        self.work_hinted: asyncio.Event = asyncio.Event()
        self.admission: Admission = Admission(options.concurrency, options.batch)
        self.others_wrote: Callable[[], None] = lambda: None
        """Whether another process wrote."""
        self.recovery: Recovery = Recovery()
        self.last_beat: Beat | None = None
        self.own_runs: list[str] = []
        """Runs of its earlier instance that it has not yet tried to take back."""
        self.schedules: Mapping[str, Definition] = schedules or {}
        self.queues: Mapping[str, QueueRules] = queues or {}
        self.has_declared: bool = False  # whether the store knows what this worker declares
        self.granted: Granted | None = None if grants is None else Granted(grants, self)
        self.is_stopping: bool = False
        self.is_stopped: bool = False
        self._resources = list(resources)
        self._all_quiet = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._heartbeat: Heartbeat | None = None
        self._watchdog: Watchdog | None = None
        self._unsubscribe: Callable[[], None] = lambda: None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._hints: Hints | None = None

    @property
    def free(self) -> int:
        return self.options.concurrency - self.engine.busy

    async def start(self) -> None:
        """Opens resources, takes back what an earlier instance of this worker held, and begins to claim."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        rules = rules_of(named := [*self.registry.components.steps(), *named_by(self.registry.bodies())])
        try:
            await self.surroundings.open([*self._resources, *resources_among(named)])
            self.engine.bodies.begin()  # with what resources have set
            await self._register()
        except BaseException:
            await self.surroundings.close()  # what was opened before
            raise
        if self.is_stopping:  # it was told to stop meanwhile: a heartbeat that begins now would never end
            await self._leave_store()
            await self.surroundings.close()
            return
        recovery = self.options.recovery
        self._heartbeat = self.heartbeat(
            self.store.heart(self.options.instance, self.options.ttl),
            self.options.ttl,
            self.surroundings.progress,
            self._beaten,
            recovery=lambda: encode_recovery(msgspec.structs.replace(self.recovery, left=self.engine.bodies.left)),
            check_interval=self._check_interval if recovery.enabled else None,
            frees=recovery.max_claims_per_check,
            also=(lambda: None) if self.granted is None else self.granted.tell,
            tell=self.telemetry.tell,
            worker=self.options.id,
        )
        self._heartbeat.start()
        if self.options.patience is not None:
            self._watchdog = Watchdog(self.telemetry.tell, patience=self.options.patience.total_seconds())
            self._watchdog.start()
        self._hints = Hints(self, self._loop)
        self._unsubscribe = self.store.subscribe(self._hints.hear)
        self._tasks = [
            self._loop.create_task(claim_until_stopped(self), name="holdfast-claiming"),
            self._loop.create_task(fire_until_stopped(self), name="holdfast-schedules"),
            self._loop.create_task(watch_until_stopped(self), name="holdfast-watching"),
            self._loop.create_task(sweep_until_stopped(self), name="holdfast-sweeping"),
            self._loop.create_task(settle_until_stopped(self, rules), name="holdfast-queues"),
            self._loop.create_task(tend_until_stopped(self, rules), name="holdfast-lines"),
        ]
        if self.granted is not None:
            self._tasks.append(self._loop.create_task(self.granted.watch(), name="holdfast-orphans"))
        names, options = tuple(name for name, _ in self.registry.served), self.options
        self.telemetry.tell(
            WorkerStarted(options.id, names, tuple(options.queues), options.concurrency, self.store.url)
        )

    @property
    def _check_interval(self) -> timedelta:
        """As configured; by default a third of a lease that is shorter than usual."""
        chosen = self.options.recovery.check_interval
        return chosen if chosen != RecoverySettings().check_interval else min(chosen, self.options.ttl / 3)

    async def _register(self) -> None:
        """Registers at the store, which frees the runs of an earlier instance; these are claimed first."""
        if self.options.ttl < SHORT:
            await self._check_distance()
        most = self.options.recovery.max_startup_recovery
        takes_over: TakeOver = "none" if not most else "all" if self.options.is_configured else "gone"
        freed = await self.store.register(self.row, self.options.ttl, takes_over=takes_over)
        await declare_queues(self.store, self.queues, instance=self.options.instance, by=self.options.id)
        self.own_runs = sorted(freed)[:most]  # the same order on every store
        if freed:
            self.telemetry.tell(RunsFreed(self.options.id, len(freed), were_own=True))
        if self.granted is not None:
            await asyncio.get_running_loop().run_in_executor(None, self.granted.beat)

    async def _check_distance(self) -> None:
        """Refuses a lease that expires before the store has answered twice."""
        times: list[float] = []
        for _ in range(2):  # the first may have to connect
            began = time.monotonic()
            await self.store.held(self.options.instance)
            times.append(time.monotonic() - began)
        answer, ttl = timedelta(seconds=min(times)), self.options.ttl
        if answer * 2 > ttl:
            raise InvalidInput(
                f"a lease of {format_duration(ttl)} is shorter than two round trips to this store, which take "
                f"{format_duration(answer)} each: raise ttl"
            )

    # -- recovery ------------------------------------------------------------------------------------------------------

    async def claim(self, limit: int, only: Sequence[str] = ()) -> Claims:
        """Claims due runs, from the store or as the lease manager allows."""
        max_claims = self.engine.settings.max_claims
        request = ClaimRequest(worker=self.row, limit=limit, max_claims=max_claims, only=tuple(only))
        if self.granted is not None:
            return await self.granted.claim(request)
        return await self.store.claim(request)

    async def recovered(self, own: Sequence[str], taken: Collection[str]) -> None:
        """The runs of the earlier instance were tried: those that others got faster are left to them."""
        counted = self.granted.refused if self.granted is not None else ()
        for run in own:
            if run in taken:
                self.met("own", run, "")
                continue
            lease = None if run in counted else await self.store.lease(run)
            if lease is not None and lease.instance != self.options.instance:
                self.met("contended", run, f"worker {lease.worker} holds it")

    def met(self, kind: Kind, run: str, detail: str) -> None:
        """Counts what recovery found, and logs what needs attention."""
        self.recovery = self.recovery.with_one(kind, run, detail, self.store.clock.now())
        if kind == "contended" or kind == "missing definition":  # noqa: PLR1714 in two comparisons: type checkers narrow these
            self.telemetry.tell(RunPutOff(run, kind, detail))

    async def learn(self, specs: Iterable[WorkflowSpec], resources: Iterable[Resource[Any]] = ()) -> None:
        """Also serves these from now on, with these resources open."""
        for spec in specs:
            self.registry.add(spec)
        await self._serve_more(resources)

    async def learn_flow_of(self, run: str) -> bool:
        """Serves the flow of a run that no live worker has, from the definition stored with it, if its components are
        here: no worker needs a flow's file to resume its runs."""
        row = await self.store.get(run)
        if row is None or not await self.engine.definitions.learn(row):
            return False
        self.telemetry.tell(FlowServed(self.options.id, row.workflow))
        await self._serve_more(())
        return True

    async def _serve_more(self, resources: Iterable[Resource[Any]]) -> None:
        await self.surroundings.open(resources)
        self.row = msgspec.structs.replace(self.row, definitions=self.registry.held)
        await self.store.register(self.row, self.options.ttl, takes_over="none")
        self.work_hinted.set()

    def make(self, new: NewRun, turn: Turn, *, key_since: datetime, is_named: bool) -> Awaitable[Creation]:
        """Creates a run of this process, already begun by this worker."""
        instance = self.options.instance
        return self.engine.beginnings.make(new, turn, key_since=key_since, instance=instance, is_named=is_named)

    def holds(self, run: str) -> bool:
        """Whether this worker advances the run now."""
        return run in self.engine.sessions

    def settles(self, run: str) -> bool:
        """Whether this worker wrote the last turn of the run and its verdict is on its way."""
        session = self.engine.sessions.get(run)
        return session is not None and session.is_settling

    def tell_ends(self, listener: Callable[[ChildEnded], None]) -> None:
        """Sets the listener for the ends of runs, called once they are durable."""
        self.engine.on_end = listener

    async def health(self) -> dict[str, Health]:
        """The health of the open resources."""
        return await self.surroundings.health()

    def wants(self, workflow: str, version: str, queue: str) -> bool:
        """Whether a run made on this thread may be made already begun by this worker."""
        return (
            not self.is_stopping
            and self.granted is None  # a run is pending until the lease manager lets us claim it
            and threading.get_ident() == self._thread
            and self.admission.begins(self.engine.busy)
            and queue in self.options.queues
            and not (queue in self.queues and QueueState(rules=self.queues[queue]).gate.is_shut)  # it waits at a gate
            and self.registry.find(workflow, version) is not None
        )

    async def stop(self, *, grace: float | None = None) -> None:
        """Shuts down gracefully: claims nothing more, releases runs as their steps end, and the rest after the grace,
        which covers the pending claim and the running bodies."""
        if self.is_stopping:
            return
        self.is_stopping = True
        self.work_hinted.set()
        limit = self.options.grace.total_seconds() if grace is None else grace
        until = asyncio.get_running_loop().time() + limit
        self.engine.drain()
        if self._tasks:
            claiming, firing = self._tasks[:2]
            firing.cancel()  # it gives its duty up: another worker fires from now on
            await asyncio.wait([claiming, firing], timeout=limit)
        self._all_quiet.clear()
        try:
            async with asyncio.timeout_at(until):
                while not self.engine.is_quiet:
                    await self._all_quiet.wait()
                    self._all_quiet.clear()
        except TimeoutError:
            self.telemetry.tell(WorkerLate(self.options.id, len(self.engine.sessions)))
        await self._close()

    def forsake(self) -> None:
        """Releases threads and listeners without telling the store: the end of a worker that was killed, in a
        simulation whose process continues."""
        self.is_stopping = self.is_stopped = True
        self._unsubscribe()
        if self._watchdog is not None:
            self._watchdog.stop()
        if self._heartbeat is not None:
            self._heartbeat.leave()
        self.engine.bodies.forsake()

    async def _close(self) -> None:
        self.is_stopped = True
        self._unsubscribe()
        await self.engine.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._watchdog is not None:
            self._watchdog.stop()
        if self._heartbeat is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._heartbeat.stop)
        await self._leave_store()
        await self.surroundings.close()
        self.telemetry.tell(WorkerStopped(self.options.id))

    async def _leave_store(self) -> None:
        """Releases what this instance holds, and ends it."""
        if self.granted is not None:  # first: a worker that meets a free run still granted to us puts it off
            await self.granted.close()
        try:
            await self.store.release_all(self.options.instance)
        except StoreError as error:
            self._trouble("leases not released; they will expire", error)

    # -- hints ---------------------------------------------------------------------------------------------------------

    def _freed(self, is_over: bool) -> None:
        if self.granted is not None:
            self.granted.freed()
        if self.is_stopping:
            self._all_quiet.set()
        elif self.admission.waits_for_slots or self.admission.waits_at_gate or not is_over:
            self.work_hinted.set()

    def _beaten(self, beat: Beat) -> None:
        self.last_beat = beat
        if beat.orphaned and self._loop is not None:
            self.telemetry.tell(RunsFreed(self.options.id, beat.orphaned, were_own=False))
            self._loop.call_soon_threadsafe(self.work_hinted.set)
            self._loop.call_soon_threadsafe(self.engine.lines_hinted.set)
        if beat.has_lapsed and self._loop is not None:
            self.telemetry.tell(LeaseLost(self.options.id))
            self._loop.call_soon_threadsafe(self._come_back)

    def _come_back(self) -> None:
        self.engine.spawn(self._known_again())

    async def _known_again(self) -> None:
        """The lease had expired. Meanwhile runs may have been delayed because no worker had their definition;
        registering recalls them. Others may have taken what we held."""
        try:
            await self.store.register(self.row, self.options.ttl, takes_over="none")
            await declare_queues(self.store, self.queues, instance=self.options.instance, by=self.options.id)
            self.has_declared = False
            await self._report_namesake()
        except StoreError as error:
            self._trouble("runs that were put off are not recalled yet", error)
        await self.engine.check_held(self.options.instance)

    async def _report_namesake(self) -> None:
        """A later instance of this id ends an earlier one, which may be alive: only the earlier one notices."""
        for other in await self.store.workers():
            is_later = other.instance != self.options.instance and other.started_at >= self.row.started_at
            if other.is_live and other.worker == self.options.id and is_later:
                self.telemetry.tell(WorkerTwin(self.options.id, other.pid, other.host))

    def _trouble(self, what: str, error: Exception) -> None:
        self.telemetry.tell(Trouble(what, error, worker=self.options.id))
