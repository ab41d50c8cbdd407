"""A machine under an app: a script whose steps are its states.

The driver is an ordinary coroutine on the script's deterministic loop. A state's body is a step named after the state,
so its completion and the scheduling of the next one are in one row: a transition is one write. Routers are called here
and are not recorded. The key of a visit is `Quoting`, then `Quoting:1`; what a visit asks for besides its first step is
`Quoting.1`, `Quoting.item0`, … The saga does the undoing.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.authoring.machine.interpretation import each_item, in_windows, polled
from holdfast.authoring.machine.marks import ItemOutcome
from holdfast.authoring.machine.model import Model, Node
from holdfast.authoring.machine.shapes import NextShape, Parts
from holdfast.authoring.machine.state_bodies import due_at
from holdfast.authoring.machine.state_failure import state_failed
from holdfast.authoring.machine.state_steps import StateSteps
from holdfast.authoring.script.calls import SleepCall
from holdfast.authoring.script.context import require_program
from holdfast.authoring.script.definition_errors import code_of
from holdfast.authoring.script.exits import Unwinding
from holdfast.authoring.script.place import Place
from holdfast.authoring.script.sagas import Saga
from holdfast.authoring.script.verdicts import marked
from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.payload import Arguments, Shape, hash_of
from holdfast.core.retry import Retry
from holdfast.core.specs import Part, WorkflowSpec
from holdfast.errors import InvalidState, StepFailed

if TYPE_CHECKING:
    from holdfast.authoring.script.calls import StepCall
    from holdfast.authoring.script.resources import Resource
    from holdfast.authoring.script.script_program import ScriptProgram


def workflow_spec(model: Model, resources: Sequence[Resource[Any]]) -> WorkflowSpec:
    """The machine as a workflow of the engine."""
    steps = {cls: StateSteps(model, node) for cls, node in model.nodes.items() if needs_steps(node)}
    what = f"machine {model.name}"
    first = model.first[0] if len(model.first) == 1 else None

    async def drive(state: Any) -> Any:
        program = require_program(what)
        async with Saga(budget=model.options.compensation_timeout):
            return await Driver(model, steps, program).run(state)

    drive.__annotations__ = {"state": first or Any}
    several = NextShape(model.states, what=what, labels=[model.nodes[cls].label for cls in model.first])
    return WorkflowSpec(
        name=model.name,
        version=model.version,
        function=drive,
        is_async=True,
        arguments=Arguments(drive, what=what) if first is not None else Parts(what, state=several),
        result=_final_shape(model, what),
        retry=Retry.none,
        deadline=model.options.timeout,
        raises=model.options.raises,
        code=hash_of("".join(code_of(x) for x in model.functions()).encode())[:16],
        where=model.where,
        style="machine",
        parts=lambda: _parts(model),
        bodies=(*model.functions(), *(one.function for one in resources)),
        replayed=tuple(
            node.definition.function
            for node in model.nodes.values()
            if node.definition is not None and not needs_steps(node)
        ),
    )


def needs_steps(node: Node) -> bool:
    """Whether a state's body runs outside the deterministic loop."""
    return node.definition is not None and node.definition.kind not in {"router", "script"}


def _final_shape(model: Model, what: str) -> Shape[Any]:
    finals = [node.label for node in model.nodes.values() if node.is_final]
    return NextShape(model.states, what=f"{what}, its final state", labels=finals)


def _parts(model: Model) -> tuple[Part, ...]:
    """The states, as the manifest shows them."""
    return tuple(
        Part(
            node.label,
            node.definition.kind if node.definition is not None else "final",
            leads_to=tuple(model.nodes[target].label for target in node.targets),
            retry=(node.definition.retry or model.options.retry) if node.definition is not None else None,
            timeout=node.definition.timeout if node.definition is not None else None,
            calls=tuple(x.__name__ for x in _functions(node)),
            has_undo=node.undo is not None,
        )
        for node in model.nodes.values()
    )


def _functions(node: Node) -> Iterator[Callable[..., Any]]:
    if node.definition is not None:
        definition = node.definition
        yield from definition.branches
        yield from (x for x in (definition.load, definition.each, definition.source) if x is not None)
        yield definition.function


class Driver:
    """One pass of a machine."""

    def __init__(self, model: Model, steps: dict[type, StateSteps], program: ScriptProgram) -> None:
        self._model = model
        self._steps = steps
        self._program = program
        self._path: list[str] = []
        self._labels: dict[type, str] = {}
        self._is_after_script = False

    async def run(self, state: Any) -> Any:
        """Runs to a final state."""
        while True:
            node = self._model.node_of(state)
            if node is None:
                self._model.states.tag(state, f"state {self._path[-1] if self._path else 'the start'}")
                raise InvalidState(f"{state!r} is not a state of machine {self._model.name}")
            if node.definition is None:
                return state
            self._path.append(node.label)
            try:
                state = await self._visit(node, state)
            except Unwinding:
                raise
            except Exception as error:
                raise self._failed(node, error) from error

    async def _visit(self, node: Node, state: Any) -> Any:
        definition = node.definition
        assert definition is not None
        self._announce(node)
        match definition.kind:
            case "router":
                answer = definition.function(state)
                return await answer if inspect.isawaitable(answer) else answer
            case "script":
                self._program.ask(c.Enter(key=self._visit_key(node), state=node.label))
                self._is_after_script = True
                return await definition.function(state)
            case "state" | "split":
                return await self._step(node, self._of(node).body.asked(self._program, self._key(node), state))
            case "stepped" | "stream":
                return await self._stepped(node, state)
            case "poll":
                return await self._poll(node, state)
            case "batch":
                return await self._batch(node, state)
            case "timer":
                return await self._timer(node, state)

    async def _step(self, node: Node, call: StepCall[Any]) -> Any:
        """Awaits a step. A cancel does not interrupt a step that can be undone; it takes effect right after it."""
        if node.undo is None:
            return await call
        task = asyncio.ensure_future(call)
        cancelled: asyncio.CancelledError | None = None
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as error:
                if self._program.loop.unwinding:
                    raise
                cancelled = error
        answer = task.result()
        if cancelled is not None:
            raise cancelled
        return answer

    async def _stepped(self, node: Node, state: Any) -> Any:
        body, key = self._of(node).body, self._key(node)

        async def window(number: int, cursor: Any) -> Any:
            nonlocal key
            call = body.asked(self._program, f"{key}.{number}" if number else key, state, cursor)
            if not number:
                key = call.key
            return await self._step(node, call)

        async def keep(cursor: Any) -> Any:
            return cursor  # it stands in the journal, as the result of its step

        return await in_windows(window, keep)

    async def _poll(self, node: Node, state: Any) -> Any:
        definition = node.definition
        assert definition is not None
        body, key = self._of(node).body, self._key(node)

        async def look(number: int) -> Any:
            nonlocal key
            call = body.asked(self._program, f"{key}.{number}" if number else key, state)
            if not number:
                key = call.key
            return await call

        async def wait(number: int, delay: float) -> None:
            if delay:
                await self._sleep(f"{key}.wait{number}", due_at(delay, self._program.at), node)

        # An error that the state declares arrives as itself, not as StepFailed: it ends the poll.
        return await polled(definition, look, wait, StepFailed, lambda _: False)

    async def _batch(self, node: Node, state: Any) -> Any:
        definition, steps = node.definition, self._of(node)
        assert definition is not None
        assert steps.load is not None
        loading = steps.load.asked(self._program, self._key(node), state)
        items: list[Any] = await loading

        async def perform(index: int, item: Any) -> ItemOutcome[Any]:
            assert steps.item is not None
            outcome: ItemOutcome[Any] = await steps.item.asked(self._program, f"{loading.key}.item{index}", item, index)
            return outcome

        results = await each_item(items, definition.concurrency, perform)
        return await steps.body.asked(self._program, f"{loading.key}.finish", state, results)

    async def _timer(self, node: Node, state: Any) -> Any:
        definition = node.definition
        assert definition is not None
        assert definition.wait is not None
        key = self._visit_key(node)
        until = due_at(definition.wait(state), self._program.at)
        await self._sleep(key, until, node, is_taken=True)
        return await self._of(node).body.asked(self._program, f"{key}.wake", state)

    async def _sleep(self, key: str, until: Any, node: Node, *, is_taken: bool = False) -> None:
        assert node.definition is not None
        where = Place(node.definition.function.__code__, 0)
        await SleepCall(self._program, key if is_taken else self._program.take_key(key), where, until)

    # -- names ---------------------------------------------------------------------------------------------------------

    def _of(self, node: Node) -> StateSteps:
        return self._steps[node.cls].under(self._key(node))

    def _visit_key(self, node: Node) -> str:
        return self._program.take_key(self._key(node))

    def _announce(self, node: Node) -> None:
        """Names the next state after a script, whose own steps are in the journal like states."""
        if self._is_after_script and node.definition is not None and node.definition.kind not in {"router", "script"}:
            self._is_after_script = False
            self._program.ask(c.Enter(key=self._program.keys.peek(self._key(node)), state=node.label))

    def _key(self, node: Node) -> str:
        """The label under which this run records the state: that of its first visit, even if the state was renamed
        since."""
        known = self._labels.get(node.cls)
        if known is None:
            known = self._labels[node.cls] = self._recorded(node) or node.label
        return known

    def _recorded(self, node: Node) -> str:
        """The earlier label under which the journal holds this visit, if any."""
        if not node.was:
            return ""
        memo = self._program.beginning.memo
        for label in node.was:
            if label in memo:
                return label
        cursor = self._program.cursor
        expected = cursor.expected() if cursor is not None else None
        key = expected.key if isinstance(expected, e.StepScheduled | e.SleepStarted | e.Entered) else ""
        label = key.partition(":")[0].partition(".")[0]
        return label if label in node.was else ""

    def _failed(self, node: Node, error: Exception) -> BaseException:
        """The error with its place, unless the machine declared it."""
        raises = self._model.options.raises
        if raises and isinstance(error, raises):
            return error
        attempt = error.attempts if isinstance(error, StepFailed) else 1
        kind = error.type if isinstance(error, StepFailed) else type(error).__name__
        message = error.message if isinstance(error, StepFailed) else str(error)
        return marked(state_failed(self._model, node, attempt, kind, message, self._path))
