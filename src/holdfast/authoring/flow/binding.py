"""From a flow's definition to a workflow that the engine can advance: its arguments, and what it calls.

A definition alone makes a workflow that can be started and queried. To be executed it needs the components it names.
The executing process provides them, so every worker binds the same bytes again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NoReturn

from msgspec.structs import replace

from holdfast.authoring.flow.call_targets import ChildTarget, StepTarget, Target
from holdfast.authoring.flow.circles import circle
from holdfast.authoring.flow.flow_arguments import FlowArguments, FlowOutput
from holdfast.authoring.flow.flow_definition import Approve, Definition, FlowStep, Invoke, Sleep, Wait
from holdfast.authoring.flow.flow_order import Plan, plan_of
from holdfast.authoring.flow.flow_program import Driver
from holdfast.authoring.flow.format import definition_from
from holdfast.authoring.flow.schema_checks import can_check
from holdfast.authoring.script.context import require_program
from holdfast.authoring.script.sagas import Saga
from holdfast.authoring.script.steps import AnyStep
from holdfast.core.payload import Shape, hash_of
from holdfast.core.redaction import Redaction
from holdfast.core.retry import Retry
from holdfast.core.specs import Part, WorkflowSpec
from holdfast.errors import DefinitionError, NotAllowedHere

__all__ = ["Target", "bound", "flow_spec", "target_of", "targets_of"]


def flow_spec(
    data: bytes,
    *,
    where: str = "",
    takes: Any = Any,
    gives: Any = Any,
    brings: tuple[Any, ...] = (),
) -> WorkflowSpec:
    """A flow as a workflow of the engine, not yet bound. `takes` and `gives` are the types its callers use."""
    definition = _plan(data).definition
    what = f"flow {definition.name}"
    return WorkflowSpec(
        name=definition.name,
        version=definition.version,
        function=_unbound(definition.description),
        is_async=True,
        arguments=FlowArguments(definition, Shape(takes, what=f"{what}: its input")),
        result=FlowOutput(definition, gives),
        retry=Retry.none,
        code=hash_of(data),
        where=where or f"definition {hash_of(data)[:12]}",
        style="flow",
        definition=data,
        declared=len(definition.steps),
        brings=brings,
        parts=lambda: parts_of(definition),
    )


def targets_of(spec: WorkflowSpec) -> tuple[str, ...]:
    """The names that a flow calls."""
    return _plan(spec.definition).definition.targets


def target_of(component: AnyStep[..., Any] | WorkflowSpec) -> Target:
    """A step or workflow in the form that flows call."""
    return StepTarget(component) if isinstance(component, AnyStep) else ChildTarget(component)


def bound(spec: WorkflowSpec, find: Callable[[str], Target | None]) -> WorkflowSpec | None:
    """The flow with everything it calls; None if something is missing, such as the package that checks schemas. It
    takes and returns plain JSON."""
    plan = _plan(spec.definition)
    targets: dict[str, Target] = {}
    for name in plan.definition.targets:
        target = find(name)
        if target is None:
            return None
        targets[name] = target
    called = [_plan(target.definition).definition for target in targets.values() if target.definition]
    if way := circle(spec.name, plan.definition.targets, partial(_flow_of, find)):
        raise DefinitionError(f"flows call each other in a circle: {' → '.join(way)}")
    if not can_check([plan.definition.output_schema, *(flow.input_schema for flow in called)]):
        return None

    async def drive(input: Any, vars: dict[str, Any]) -> Any:
        program = require_program(f"flow {spec.name}")
        program.redaction = Redaction(vars.get(name) for name in plan.definition.secrets)
        driver = Driver(plan, targets, program, input, vars)
        if not plan.definition.saga:
            return await driver.run()
        async with Saga():
            return await driver.run()

    return replace(
        flow_spec(spec.definition, where=spec.where),
        function=drive,
        bodies=tuple(body for target in targets.values() for body in target.bodies),
    )


def _flow_of(find: Callable[[str], Target | None], name: str) -> Definition | None:
    target = find(name)
    return _plan(target.definition).definition if target is not None and target.definition else None


def parts_of(definition: Definition) -> tuple[Part, ...]:
    """The declared parts of a flow, step by step."""
    return tuple(_part(step) for step in definition.steps)


def _part(step: FlowStep) -> Part:
    does = step.does
    calls = (does.target,) if isinstance(does, Invoke) else ()
    kind = "each" if step.each is not None else _KINDS[type(does)]
    return Part(step.name, kind, needs=step.after, calls=calls, retry=step.retry, timeout=step.timeout)


_KINDS: dict[type, str] = {Invoke: "call", Wait: "wait", Sleep: "sleep", Approve: "approve"}


@lru_cache(maxsize=128)
def _plan(data: bytes) -> Plan:
    definition: Definition = definition_from(data)
    return plan_of(definition)


def _unbound(description: str) -> Callable[..., NoReturn]:
    def flow(*_: Any, **__: Any) -> NoReturn:
        raise NotAllowedHere("a flow is executed by a worker: start it with app.start(flow({…}))")

    flow.__doc__ = description
    return flow
