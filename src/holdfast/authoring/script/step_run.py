"""A step as a run of its own: `app.start(email.call(…))`, the background task without a workflow around it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from holdfast.authoring.script.calls import StepCall
from holdfast.authoring.script.context import require_program
from holdfast.authoring.script.definition_errors import code_of
from holdfast.authoring.script.place import Place
from holdfast.core.retry import Retry
from holdfast.core.specs import StepSpec, WorkflowSpec

if TYPE_CHECKING:
    from holdfast.authoring.script.script_program import ScriptProgram


class Callee(Protocol):
    """A step, as far as a run of it needs it."""

    def make_call(
        self, program: ScriptProgram, args: tuple[Any, ...], kwargs: dict[str, Any], where: Place, /
    ) -> StepCall[Any]: ...


def run_spec(step: Callee, spec: StepSpec) -> WorkflowSpec:
    """The workflow that calls the step and returns its result. It has the name of the step, and no version."""
    where = Place(spec.function.__code__, 0)

    async def perform(*args: Any, **kwargs: Any) -> Any:
        return await step.make_call(require_program(spec.name), args, kwargs, where)

    return WorkflowSpec(
        name=spec.name,
        version="",
        function=perform,
        is_async=True,
        arguments=spec.arguments,
        result=spec.result,
        retry=Retry.none,
        raises=spec.raises,
        code=code_of(spec.function),
        where=spec.where,
        is_closed=True,
        bodies=(spec.function,),
    )
