"""A machine without an app: a plain loop over its states, with its log in a three-method store.

There is no worker, no lease and no journal, so nothing of the engine is needed (ADR 0018). Without store, observers and
limits, states are called directly from a table.

Invariants: a row is durable before the body it announces runs; after a failure only undos run; opened resources are
always closed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.authoring.machine.model import Model, Node
from holdfast.authoring.machine.state_bodies import FAILURES, call
from holdfast.authoring.script.context import find_program, running_step
from holdfast.authoring.script.open_resources import OpenResources
from holdfast.authoring.script.resources import Health, Resource, resources_named_by
from holdfast.core.ids import check_id
from holdfast.core.machine_history import COMPLETION, ENTRY, Past
from holdfast.errors import (
    Conflict,
    InvalidInput,
    InvalidState,
    NotAllowedHere,
    UsageError,
)
from holdfast.standalone import state_kinds
from holdfast.standalone.alone_scope import AloneScope, AloneSurroundings
from holdfast.standalone.attempt import Exhausted, to_the_end
from holdfast.standalone.end import given_up
from holdfast.standalone.journey import PATH, Done, Journey, Stop, TooLate
from holdfast.standalone.rollback import continue_rollback

if TYPE_CHECKING:
    from holdfast.ports.machine_log import MachineLog


@dataclass(slots=True)
class Plan:
    """What is computed once for each machine."""

    quick: dict[type, Callable[[Any], Awaitable[Any]]]
    resources: list[Resource[Any]]


def plan_of(model: Model, resources: Sequence[Resource[Any]]) -> Plan:
    """The plan of a machine, kept with it."""
    known: Plan | None = model.plan
    if known is None:
        quick: dict[type, Callable[[Any], Awaitable[Any]]] = {}
        for cls, node in model.nodes.items():
            definition = node.definition
            if definition is None or definition.undo or definition.timeout or definition.breaker:
                continue
            if definition.kind in {"state", "router"} and definition.is_async:
                quick[cls] = definition.function
        found = {id(one): one for one in (*resources, *resources_named_by(model.functions()))}
        model.plan = known = Plan(quick, list(found.values()))
    return known


async def run(
    model: Model,
    resources: Sequence[Resource[Any]],
    state: Any,
    store: MachineLog | None,
    id: str | None,
    keep_log: bool,
    cancel: asyncio.Event | None,
) -> Any:
    """Runs from that state to a final one."""
    _refuse_in_workflow(model, "run")
    if type(state) not in model.nodes:
        model.states.tag(state, "run()")
    if store is not None and id is None:
        raise InvalidInput(
            f'machine {model.name}: a run with a store needs an id to be found again: run(…, id="run-42")'
        )
    if id is not None:
        check_id(id, "run id")
    one = Alone(model, plan_of(model, resources), store, id or "", keep_log=keep_log, cancel=cancel)
    return await one.within(lambda: one.forward(state))


async def resume(
    model: Model,
    resources: Sequence[Resource[Any]],
    id: str,
    store: MachineLog | None,
    keep_log: bool,
    cancel: asyncio.Event | None,
) -> Any:
    """Resumes that run from its log."""
    _refuse_in_workflow(model, "resume")
    if store is None:
        raise UsageError(f"machine {model.name}: resume() needs the store that holds the log: resume({id!r}, store=…)")
    one = Alone(model, plan_of(model, resources), store, check_id(id, "run id"), keep_log=keep_log, cancel=cancel)
    past = await one.load()
    row = past.last
    state = model.states.decode(row.state, row.blob or b"null")
    if model.nodes[type(state)].is_final:
        await one.clear()
        return state
    return await one.within(lambda: one.go_on(past, state))


def _refuse_in_workflow(model: Model, verb: str) -> None:
    if find_program() is not None:
        raise NotAllowedHere(
            f"{model.name}.{verb}() in a workflow would not be recorded: await {model.name}(…), a child run, or do it "
            "in a step"
        )


async def health(model: Model, resources: Sequence[Resource[Any]]) -> dict[str, Health]:
    """Opens the resources, asks them, closes them."""
    opened = OpenResources()
    try:
        await opened.open(plan_of(model, resources).resources)
        return await opened.health()
    finally:
        await opened.close()


class Alone(Journey):
    """One run of a machine, driven through its states."""

    until: float | None
    sequence: int
    stack: list[Done]
    visit: int
    cursors: list[bytes]
    here: Node | None
    attempt: int

    def __init__(
        self,
        model: Model,
        plan: Plan,
        store: MachineLog | None,
        id: str,
        *,
        keep_log: bool,
        cancel: asyncio.Event | None,
    ) -> None:
        super().__init__(model, store, id, keep_log=keep_log, cancel=cancel)
        self._plan = plan
        self._is_entered = False
        self._is_quick = store is None and not self.audience and cancel is None and model.options.timeout is None

    # -- around the run ------------------------------------------------------------------------------------------------

    async def within(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """Opens resources, runs, closes them again on every path."""
        resources = self._plan.resources
        opened = OpenResources()
        token = running_step.set(AloneScope(self, AloneSurroundings(opened)))  # type: ignore[arg-type]
        try:
            if resources:
                await opened.open(resources)
            limit = self.model.options.timeout
            if limit is not None:
                self.until = asyncio.get_running_loop().time() + limit.total_seconds()
            return await work()
        finally:
            running_step.reset(token)
            if resources:
                await to_the_end(opened.close())

    async def forward(self, state: Any) -> Any:
        """Runs from that state on; a failure undoes what was completed."""
        try:
            return await self._loop(state)
        except Conflict:
            raise  # the log belongs to another run, or another process runs this one: it is left alone
        except (*FAILURES, asyncio.CancelledError, Stop, TooLate) as error:
            return await given_up(self, error)

    async def go_on(self, past: Past, state: Any) -> Any:
        """Continues a resumed run: forward from its last state, or with its rollback."""
        self.sequence = past.next_sequence
        self.path.extend(past.path[-PATH:])
        for label in past.path:
            if not self.model.states.knows(label):
                self.tell_run("unknown_state", label)
                with contextlib.suppress(ValueError):
                    self.path.remove(label)
        self.stack = [Done.of(x) for _, x in sorted(past.done.items())]
        self.tell_run("resumed", past.final.sequence)
        if past.rollback is not None:
            return await continue_rollback(self, past.rollback)
        self.visit, self.cursors = past.last.visit, past.cursors
        self._is_entered = True
        return await self.forward(state)

    # -- the loop ------------------------------------------------------------------------------------------------------

    async def _loop(self, state: Any) -> Any:
        quick: dict[Any, Callable[[Any], Awaitable[Any]]] = self._plan.quick if self._is_quick else {}
        walked: Callable[[Any], None] = self.path.append
        nodes: dict[Any, Node] = self.model.nodes
        while True:
            failed: BaseException | None = None
            try:
                while (body := quick.get(type(state))) is not None:
                    walked(type(state))
                    state = await body(state)
            except FAILURES as error:
                failed = error
                self.path.pop()
            node = nodes.get(type(state))
            if node is None:
                self.model.states.tag(state, f"state {self.last_label}")
                raise InvalidState(f"{type(state).__name__} is not a state of machine {self.model.name}")
            if node.definition is None:
                await self._enter(node, state)
                self.here = node
                await self.clear()
                return state
            state = await self._visit(node, state, failed)

    async def _visit(self, node: Node, state: Any, failed: BaseException | None) -> Any:
        assert node.definition is not None
        self.here, self.attempt = node, 0
        self.boundary()
        is_again, self._is_entered = self._is_entered, False
        if not is_again:
            self.path.append(node.cls)
            self.cursors = []
        if node.definition.kind == "router":
            self.tell("state_entered")
            if failed is not None:
                raise Exhausted(1, failed) from failed
            return await call(node.definition.function, state)
        if not is_again:
            self.visit += 1
        await self._enter(node, state)
        if node.undo is None:
            answer = await state_kinds.perform(self, node, state, failed)
            self.cursors = []
            return answer
        task, cancelled = await to_the_end(state_kinds.perform(self, node, state, failed))
        answer = task.result()
        await self._completed(node, state, answer)
        if cancelled is not None:
            raise cancelled
        return answer

    async def _completed(self, node: Node, state: Any, answer: Any) -> None:
        """Pushes the visit on the stack first: a visit that cannot be recorded is still undone."""
        done = Done(self.visit, node.label, given=state, left=answer)
        self.stack = [x for x in self.stack if x.visit != self.visit]
        self.stack.append(done)
        blob = self.model.states.tag(answer, f"state {node.label}")
        await self.append(COMPLETION, node, blob)
        done.is_written = True

    async def _enter(self, node: Node, state: Any) -> None:
        self.tell("state_entered", node=node)
        if self.store is not None:
            await self.append(ENTRY, node, self.model.states.encode(state, node.label), is_final=node.is_final)
