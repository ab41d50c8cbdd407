"""One seed's world: a store, its workers and clients as actors of one loop, the faults that strike them, the end.

Everything but time, chance and the wires is what runs in production: worker, engine, client and store.
"""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import asyncio
import logging
import random
import traceback
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from unittest.mock import patch

from holdfast.adapters.memory.store import MemoryStore
from holdfast.authoring.registry import Registry
from holdfast.authoring.script.context import find_program, running_step
from holdfast.authoring.script.named import named_by
from holdfast.core.specs import Settings
from holdfast.ports.store import Store
from holdfast.upkeep.sweep import sweep
from holdfast.worker.worker_options import WorkerOptions
from tests.lab.sim import faults as drawing
from tests.lab.sim import scenario as casting
from tests.lab.sim.clients import Clients
from tests.lab.sim.conversations import CUT
from tests.lab.sim.faults import Fault, Where
from tests.lab.sim.grants import LyingGrants, Manager
from tests.lab.sim.knocks import Knocks
from tests.lab.sim.liveness import Liveness
from tests.lab.sim.loop import ACTOR, HEART, SeededLoop, SimulatedClock, Stuck, context_of
from tests.lab.sim.places import rule
from tests.lab.sim.scenario import Scenario
from tests.lab.sim.slots import DUTY, definitions, draw_schedules
from tests.lab.sim.stage import STAGE
from tests.lab.sim.watch import Watch
from tests.lab.sim.wire import Wire, is_write
from tests.lab.sim.workers import SimulatedWorker
from tests.lab.sim.workflows import SERVED, deal, inserted, once
from tests.support.heap import without_collector

BEGINNING = datetime(2026, 1, 1, 12, tzinfo=UTC)
TTL, POLL = 2.0, 0.4
DAWN, DUSK = 1.5, 5.0
"""Faults stop at some second between these, and everything must come to its end."""


@dataclass
class Process:
    """One life of a worker."""

    actor: int
    id: str
    wire: Wire
    worker: SimulatedWorker
    has_new_code: bool
    began: float
    ended: float | None = None


@dataclass
class Result:
    """What became of a seed."""

    seed: int
    scenario: Scenario
    problems: list[str]
    met: Counter[str]
    trace: str
    journals: dict[str, list[tuple[int, int, int, bytes]]]
    boundaries: Counter[str]
    until_end: Counter[str]
    """Boundaries met while a run was open."""
    struck: list[Fault]
    moves: int
    seconds: float
    """Virtual ones."""
    runs: int = 0
    story: list[str] = field(default_factory=list[str])


def scenario_of(seed: int) -> Scenario:
    """The scenario of a seed."""
    rng = random.Random(f"{seed} scenario")
    scenario = casting.draw(rng)
    draw_schedules(rng, scenario)
    return scenario


class World:
    """See the module."""

    def __init__(
        self,
        seed: int,
        *,
        faults: list[Fault] | None = None,
        scenario: Scenario | None = None,
        open_store: Callable[[SimulatedClock], Store] = MemoryStore,
        is_telling: bool = False,
        dusk: float | None = None,
        hints: str | None = None,
    ) -> None:
        self.seed = seed
        rng = random.Random(seed)
        self.scenario = scenario or scenario_of(seed)
        self.hints = hints or self.scenario.hints
        drawn = faults if faults is not None else drawing.draw(random.Random(f"{seed} faults"), TTL)
        self.is_safety_only = rng.random() < 0.15
        self.dusk = DAWN + rng.random() * (DUSK - DAWN)
        if dusk is not None:
            self.is_safety_only, self.dusk = False, dusk
        self.rng = random.Random(rng.random())
        self.faults = {(fault.where, fault.at): fault for fault in drawn}
        self.struck: list[Fault] = []
        self.clock = SimulatedClock(BEGINNING)
        self.loop = SeededLoop(self.clock, random.Random(rng.random()))  # type: ignore[abstract]
        self.store = open_store(self.clock)
        self.met: Counter[str] = Counter()
        self.boundaries: Counter[str] = Counter()
        self.schedules = definitions(self.scenario, BEGINNING)
        self.watch = Watch(self.store, self)
        self.watch.story = [] if is_telling else None
        self.registry = Registry()
        for served in SERVED:
            for spec in served.specs():
                self.registry.add(spec)
        self.registry.components.add(deal)
        self.grants = self._grants() if self.scenario.has_grants else None
        self.processes: dict[int, Process] = {}
        self.is_calm = False
        self.is_out = False
        self.has_new_code = False
        self._last = 0
        self._instances = 0
        self.lives: dict[str, int] = {}
        self.clients = Clients(self)
        self.liveness = Liveness(self)
        self.knocks = Knocks(self)

    def _grants(self) -> LyingGrants:
        cast = self.scenario
        return LyingGrants(self.clock, Manager(self.rng, self.loop.time, cast.distance, cast.losses))

    # -- faults --------------------------------------------------------------------------------------------------------

    def boundary(self, actor: int, name: str, *, is_client: bool) -> Fault | None:
        """A call to the store begins: what goes wrong with it, if anything does."""
        where: Where = "client" if is_client else "write" if is_write(name) else "other"
        number = self.boundaries[where]
        self.boundaries[where] = number + 1
        if self.is_calm:
            return None
        fault = self.faults.get((where, number))
        if fault is not None:
            self.struck.append(fault)
            self.watch.note(f"{actor} {name}: {fault}")
        return fault

    def crash(self, actor: int, *, same_id: bool) -> None:
        """The process is gone in this moment; another takes its place a little later."""
        process = self.processes[actor % HEART]
        if process.ended is not None:
            return
        process.ended = self.loop.time()
        process.wire.is_cut = True
        process.worker._unsubscribe()
        self.loop.kill(process.actor)
        self.met["crash"] += 1
        self._replace(process, same_id=same_id)

    def _replace(self, process: Process, *, same_id: bool) -> None:
        name = process.id if same_id else f"worker-{self._last + 1}"
        after = self.rng.choice((0.0, 0.1, TTL * 1.2))
        self.loop.call_later(after, lambda: self.begin_worker(name), context=context_of(0))

    def stall(self, actor: int, seconds: float, *, with_heart: bool) -> None:
        """The process stands still; with its heartbeat, others may take its runs."""
        self.loop.stall(actor, seconds, with_heart=with_heart)
        self.met["zombie" if with_heart and seconds > TTL else "stall"] += 1

    async def never(self) -> None:
        """Where a process is that was killed."""
        await self.loop.create_future()

    def strike(self, fault: Fault) -> None:
        """A fault that is tied to a time."""
        if self.is_calm:
            return
        self.struck.append(fault)
        self.watch.note(str(fault))
        match fault.kind:
            case "jump":
                self.clock.set(self.clock.now() + timedelta(seconds=fault.amount))
            case "terminate":
                live = [each for each in self.processes.values() if each.ended is None]
                if live:
                    process = self.rng.choice(live)
                    _ = self.loop.spawn(process.actor, self._terminate(process))
            case "deploy":
                self.has_new_code = not self.has_new_code
                self._crash_all()
            case "reboot":
                self.clock.reboot()
                self.met["reboot"] += 1
                self._crash_all()
            case "twin":
                self._begin_twin()
            case "lie" if self.grants is not None:
                self.grants.lie()
            case "collect":
                _ = self.loop.spawn(0, self._sweep())
            case "outage":
                self.met["outage"] += 1
                self.is_out = True
                self.loop.call_later(fault.amount, self._over, context=context_of(0))
            case _:
                pass

    def _crash_all(self) -> None:
        for process in list(self.processes.values()):
            self.crash(process.actor, same_id=True)

    def _begin_twin(self) -> None:
        """A second process under the id of one that lives: both work, each by its own instance."""
        live = [each for each in self.processes.values() if each.ended is None]
        if live:
            self.met["twin worker"] += 1
            self.begin_worker(self.rng.choice(live).id)

    def _over(self) -> None:
        self.is_out = False

    async def _sweep(self) -> None:
        async def goes_on() -> bool:
            return True

        keep = self.scenario.keep
        wire = Wire(self.store, self, 0, is_client=True)
        wire.is_cut = False
        await sweep(
            wire.store, None if keep is None else timedelta(seconds=keep), goes_on=goes_on, grace=timedelta(seconds=1)
        )

    async def _terminate(self, process: Process) -> None:
        await process.worker.stop(grace=self.rng.choice((0.0, 0.1, 5.0)))
        if process.ended is None:
            process.ended = self.loop.time()
            self.met["graceful stop"] += 1
            self._replace(process, same_id=self.rng.random() < 0.5)

    # -- workers -------------------------------------------------------------------------------------------------------

    def begin_worker(self, name: str) -> None:
        """Starts a process with a worker."""
        self._last += 1
        self._instances += 1
        actor, scenario = self._last, self.scenario
        wire = Wire(self.store, self, actor)
        settings = Settings(
            max_claims=scenario.max_claims,
            snapshot_every=scenario.snapshot_every,
            compact_after=scenario.compact_after,
            keep=None if scenario.keep is None else timedelta(seconds=scenario.keep),
            cancel_grace=timedelta(seconds=3),
        )
        options = WorkerOptions(
            id=name,
            is_configured=True,
            instance=f"{name}.{self._instances}",
            concurrency=scenario.slots,
            ttl=timedelta(seconds=TTL),
            poll=timedelta(seconds=POLL),
            look=timedelta(seconds=POLL),
            sweep=timedelta(seconds=4 if scenario.keep is not None else 10_000),
            grace=timedelta(seconds=2),
            patience=None,
        )
        grants = None if self.grants is None else self.grants.reached()
        worker = SimulatedWorker(wire.store, self.registry, settings, options, grants=grants, schedules=self.schedules)
        worker.work_hinted, worker._all_quiet = asyncio.Event(), asyncio.Event()
        self.processes[actor] = Process(actor, name, wire, worker, self.has_new_code, self.loop.time())
        _ = self.loop.spawn(actor, self._start(self.processes[actor]))

    async def _start(self, process: Process) -> None:
        try:
            await process.worker.start()
        except Exception as error:  # noqa: BLE001 a process that cannot start ends, and is started again
            self.watch.note(f"{process.actor} did not start: {error}")
            process.ended = self.loop.time()
            process.wire.is_cut = True
            self.loop.call_later(0.3, lambda: self.begin_worker(process.id), context=context_of(0))
            self.loop.kill(process.actor)

    def holds(self, actor: int) -> Any:
        """The definitions an actor holds; None for clients."""
        process = self.processes.get(actor)
        return None if process is None else process.worker.registry.held

    # -- bodies --------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _body(self) -> AsyncGenerator[int]:
        scope = running_step.get()
        assert scope is not None
        self.watch.begun(ACTOR.get(), scope, is_once=scope.step == once.name)
        yield scope.attempt

    def _inserts(self) -> int:
        """Where the code that runs now has one step more. In the end each run gets the code that it was written by."""
        if self.is_calm:
            program = find_program()
            assert program is not None
            is_new = self.watch.has_asked(program.beginning.run, program.beginning.identity, inserted.name)
        else:
            process = self.processes.get(self.loop.actor % HEART)
            is_new = process is not None and process.has_new_code
        return self.scenario.inserts_at if is_new else -1

    def _poison(self) -> None:
        scope, process = running_step.get(), self.processes[ACTOR.get() % HEART]
        if scope is not None and not self.is_calm and self.rng.random() < 0.8:
            self.watch.holding.killed(scope.run, process.worker.options.instance, self.watch.wrong)
            self.crash(ACTOR.get(), same_id=self.rng.random() < 0.5)

    # -- one seed ------------------------------------------------------------------------------------------------------

    def run(self) -> Result:
        """Everything, from the first worker to the last check."""
        with without_collector():  # a world is short; what it leaves is collected after it
            return self._run()

    def _run(self) -> Result:
        STAGE.body, STAGE.inserts, STAGE.poison = self._body, self._inserts, self._poison
        with _chance(self.rng), heard(self.watch.problems, self.met):
            try:
                self.loop.run(self._play())
            except Stuck as error:
                self.watch.problems.append(f"stuck: {error}")
            for process in self.processes.values():
                process.wire.is_cut = True
            self._check_the_loop()
            journals = {
                name: [(row.ordinal, row.epoch, row.at, row.checksum) for row in known.rows]
                for name, known in self.watch.runs.items()
            }
        self._close()
        return Result(
            self.seed,
            self.scenario,
            self.watch.problems,
            self.met,
            self.watch.trace,
            journals,
            self.boundaries,
            self.watch.until_end,
            self.struck,
            self.loop.moves,
            self.loop.time(),
            len(self.watch.runs),
            self.watch.story or [],
        )

    async def _play(self) -> None:
        await rule(self.store, self.scenario)
        for number in range(self.scenario.workers):
            self.begin_worker(f"worker-{number + 1}")
        for fault in self.faults.values():
            if fault.where == "time":
                self.loop.call_later(fault.at / 1000, self.strike, fault)
        acting = self.clients.begin()
        await asyncio.sleep(self.dusk)
        if self.is_safety_only:
            await self.clients.verify()
            return
        self._calm_down()
        await asyncio.sleep(self.loop.stalled)
        await self.liveness.demand(acting)
        await self.clients.verify()

    def _calm_down(self) -> None:
        """Faults stop: the old code is back, the lease manager honest, the store there."""
        self.watch.note("calm")
        if self.has_new_code or any(p.has_new_code for p in self.processes.values() if p.ended is None):
            self.has_new_code = False
            self._crash_all()
        self.is_calm = True
        self.is_out = False
        if self.grants is not None:
            self.grants.be_honest()

    def _check_the_loop(self) -> None:
        for error in self.loop.errors:
            self.watch.problems.append(f"unhandled: {error}")

    def _close(self) -> None:
        """What was cut off in the middle ends here, and nobody hears it complain."""
        with heard([]):
            self._let_go()

    def _let_go(self) -> None:
        for process in self.processes.values():
            engine = process.worker.engine
            for session in [*engine.sessions.values(), *engine.beginnings.unborn.values()]:
                session.program.close()
            for kept in engine.warm.values():
                kept.program.close()
        self.loop.close()


@contextmanager
def _chance(rng: random.Random) -> Generator[None]:
    """What the product draws by chance follows from the seed as well; what is the same for every seed is not sought."""
    state = random.getstate()
    random.seed(rng.random())
    try:
        with (
            patch("secrets.token_hex", lambda count=32: random.randbytes(count).hex()),
            patch("holdfast.worker.worker.named_by", lambda functions: _named(tuple(functions))),
            patch("holdfast.worker.worker.resources_among", _no_resources),
            patch("holdfast.adapters.memory.leases.process_mark", _no_mark),
            patch("holdfast.schedules.due.TTL", DUTY),
            patch("holdfast.authoring.batch.batch_inputs.CHUNK_ITEMS", 2),
            patch("holdfast.core.pieces.SMALLEST", CUT),
            patch("holdfast.core.commands.SMALLEST", CUT),
        ):
            yield
    finally:
        random.setstate(state)


@cache
def _named(functions: tuple[Callable[..., Any], ...]) -> list[Any]:
    return named_by(functions)


def _no_resources(values: Iterable[Any]) -> list[Any]:
    return []


def _no_mark(pid: int) -> str:
    return ""


class _Ear(logging.Handler):
    def __init__(self, problems: list[str], met: Counter[str]) -> None:
        super().__init__(logging.WARNING)
        self._problems = problems
        self._met = met

    def emit(self, record: logging.LogRecord) -> None:
        self._met["stray"] += getattr(record, "fact", "") == "stray"
        is_as_it_should_be = getattr(record, "fact", "") == "finished"  # a run that failed, as its program has it
        if record.levelno >= logging.ERROR and record.exc_info and not is_as_it_should_be:
            trace = "".join(traceback.format_exception(*record.exc_info))
            self._problems.append(f"broke: {record.getMessage()} {trace}")


@contextmanager
def heard(problems: list[str], met: Counter[str] | None = None) -> Generator[None]:
    """What the product reports as broken is a problem; whatever else it says is not printed."""
    logger, ear = logging.getLogger("holdfast"), _Ear(problems, Counter() if met is None else met)
    level, propagates = logger.level, logger.propagate
    logger.addHandler(ear)
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(ear)
        logger.setLevel(level)
        logger.propagate = propagates
