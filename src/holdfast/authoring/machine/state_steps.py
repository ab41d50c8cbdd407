"""States as steps of a script: what runs under an app, with the state's policy, shapes and undo."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from holdfast.authoring.machine import state_bodies
from holdfast.authoring.machine.handlers import Definition, Undo
from holdfast.authoring.machine.marks import ItemOutcome, More
from holdfast.authoring.machine.model import Model, Node
from holdfast.authoring.machine.shapes import NextShape, Parts
from holdfast.authoring.machine.state_bodies import run_item
from holdfast.authoring.script.context import running_step
from holdfast.authoring.script.place import Place
from holdfast.authoring.script.step_options import StepOptions
from holdfast.authoring.script.steps import AnyStep
from holdfast.core.annotations import Unsupported, hints_of
from holdfast.core.payload import Shape, result_shape
from holdfast.core.retry import Retry
from holdfast.core.specs import StepSpec
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.authoring.script.calls import StepCall
    from holdfast.authoring.script.script_program import ScriptProgram


class StateStep(AnyStep[..., Any]):
    """A step with a hand-made specification: its arguments and result are states."""

    def __init__(self, spec: StepSpec, place: Place) -> None:
        super().__init__(spec.function, StepOptions(name=spec.name))
        self.__dict__["spec"] = spec
        self._place = place

    def asked(self, program: ScriptProgram, key: str, *args: Any) -> StepCall[Any]:
        """The call under exactly that key."""
        return self.make_call(program, args, {}, self._place, key=key)


class StateSteps:
    """The steps of one state."""

    def __init__(self, model: Model, node: Node, label: str = "") -> None:
        definition = node.definition
        assert definition is not None
        self._label = label or node.label
        self._renamed: dict[str, StateSteps] = {}
        self._model, self._node, self._definition = model, node, definition
        self._what = f"machine {model.name}, state {node.label}"
        self.body: StateStep = self._make_body()
        self.load: StateStep | None = None
        self.item: StateStep | None = None
        if definition.kind == "batch":
            self.load, self.item = self._make_load(), self._make_item()
        if definition.undo is not None:
            self.body.undo_step = self._make_undo(definition.undo)

    def under(self, label: str) -> StateSteps:
        """The same steps under the label that an older run uses."""
        if label == self._label:
            return self
        if label not in self._renamed:
            self._renamed[label] = StateSteps(self._model, self._node, label)
        return self._renamed[label]

    def _step(
        self, body: Callable[..., Any], arguments: Parts, result: Shape[Any], *, retry: Retry | None = None
    ) -> StateStep:
        definition = self._definition
        is_poll = definition.kind == "poll"
        spec = StepSpec(
            name=self._label,
            function=body,
            executor="async",
            arguments=arguments,
            result=result,
            retry=retry or (Retry.none if is_poll else definition.retry or self._model.options.retry),
            timeout=None if definition.kind in {"poll", "stream"} else definition.timeout,
            raises=tuple(dict.fromkeys((*definition.raises, *self._model.options.raises))),
            where=definition.where,
            advice=state_bodies.ADVICE,
        )
        return StateStep(spec, Place(definition.function.__code__, 0))

    def _state(self) -> Shape[Any]:
        return Shape(self._node.cls, what=self._what)

    def _make_body(self) -> StateStep:
        definition, node = self._definition, self._node
        result = NextShape(self._model.states, what=self._what, cursor=node.cursor)
        cursor: Shape[Any] = Shape(node.cursor | None if node.cursor is not None else Any, what=f"{self._what}: cursor")
        match definition.kind:
            case "split":
                return self._step(self._watched(self._split), Parts(self._what, state=self._state()), result)
            case "stepped":
                parts = Parts(self._what, state=self._state(), cursor=cursor)
                return self._step(self._watched(self._call), parts, result)
            case "stream":
                parts = Parts(self._what, state=self._state(), cursor=cursor)
                return self._step(self._watched(self._window), parts, result, retry=Retry.none)
            case "batch":
                outcomes: Shape[Any] = Shape(list[self._outcome_type()], what=self._what)  # type: ignore[misc]
                parts = Parts(self._what, state=self._state(), outcomes=outcomes)
                return self._step(self._watched(self._call), parts, result)
            case _:
                run: Callable[..., Any] = self._call
                if definition.undo is not None:
                    run = self._or_undone(definition, definition.undo, result)
                return self._step(self._watched(run), Parts(self._what, state=self._state()), result)

    async def _call(self, *args: Any) -> Any:
        return await state_bodies.call(self._definition.function, *args)

    async def _split(self, state: Any) -> Any:
        return await state_bodies.split(self._definition, state, self._tell)

    async def _window(self, state: Any, cursor: Any) -> Any:
        """Handles one window: opens the source at the cursor, reads and closes it."""
        reading = state_bodies.Reading(self._definition, state, cursor)
        try:
            return await reading.window()
        except state_bodies.Flushed as flushed:
            return More(flushed.cursor)
        finally:
            await reading.close()

    @staticmethod
    def _or_undone(definition: Definition, undo: Undo, result: Shape[Any]) -> Callable[..., Any]:
        """Undoes a result that cannot be stored at once, since nothing else will know of it."""

        async def run(state: Any) -> Any:
            value = await state_bodies.call(definition.function, state)
            try:
                result.encode(value)
            except HoldfastError:
                await state_bodies.call(undo.function, value, state)
                raise
            return value

        return run

    def _make_undo(self, undo: Undo) -> StateStep:
        what = f"{self._what}, undo"

        async def undone(left: Any, state: Any) -> None:
            await state_bodies.call(undo.function, left, state)

        spec = StepSpec(
            name=f"undo {self._label}",
            function=undone,
            executor="async",
            arguments=Parts(what, left=NextShape(self._model.states, what=what), state=self._state()),
            result=Shape(None, what=what),
            retry=undo.retry or self._model.options.retry,
            timeout=undo.timeout,
            where=undo.where,
            advice=state_bodies.ADVICE,
        )
        return StateStep(spec, Place(undo.function.__code__, 0))

    # -- batch ---------------------------------------------------------------------------------------------------------

    def _outcome_type(self) -> Any:
        assert self._definition.each is not None
        return ItemOutcome[result_shape(self._definition.each, self._what).annotation]  # type: ignore[misc]

    def _item_type(self) -> Any:
        each = self._definition.each
        assert each is not None
        try:
            hints = hints_of(each, "its")
        except Unsupported:
            return Any
        return next((hint for name, hint in hints.items() if name != "return"), Any)

    def _make_load(self) -> StateStep:
        load = self._definition.load
        assert load is not None

        async def loaded(state: Any) -> list[Any]:
            return list(await state_bodies.call(load, state))

        shape: Shape[Any] = Shape(list[self._item_type()], what=f"{self._what}, load")  # type: ignore[misc]
        return self._step(self._watched(loaded), Parts(self._what, state=self._state()), shape)

    def _make_item(self) -> StateStep:
        each, policy = self._definition.each, self._definition.item_retry
        assert each is not None

        async def handled(item: Any, index: int) -> ItemOutcome[Any]:
            return await run_item(each, item, index, policy)

        item: Shape[Any] = Shape(self._item_type(), what=f"{self._what}, item")
        index: Shape[Any] = Shape(int, what=f"{self._what}, index")
        outcome: Shape[Any] = Shape(self._outcome_type(), what=f"{self._what}, outcome")
        return self._step(handled, Parts(self._what, item=item, index=index), outcome, retry=Retry.none)

    # -- watching ------------------------------------------------------------------------------------------------------

    def _tell(self, hook: str, *facts: object) -> None:
        audience = self._model.options.audience
        scope = running_step.get()
        if audience and scope is not None:
            audience.tell(hook, scope.run, self._node.label, *facts)

    def _watched(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """The body with its circuit breaker, reported to observers as in a standalone run."""
        task, breaker, tell = self._definition.name, self._definition.breaker, self._tell

        async def body(*args: Any) -> Any:
            scope = running_step.get()
            number = scope.attempt if scope is not None else 1
            tell("state_entered")
            if breaker is not None and breaker.state == "open":
                tell("circuit_open")
            permit = breaker.ask() if breaker is not None else None
            tell("task_started", task, number)
            try:
                value = await run(*args)
            except BaseException as error:
                if breaker is not None and permit is not None:
                    breaker.failed(permit)
                tell("task_failed", task, number, error)
                raise
            if breaker is not None and permit is not None:
                breaker.succeeded(permit)
            tell("task_succeeded", task, number)
            return value

        return body
