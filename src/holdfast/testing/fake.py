"""`Fake`: replaces a step, a resource or another team's workflow in a test."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar, cast, overload

from msgspec.structs import replace

from holdfast.authoring.machine.machine_workflow import MachineWorkflow
from holdfast.authoring.script.resources import Resource
from holdfast.authoring.script.steps import AnyStep, step
from holdfast.authoring.script.workflows import AnyWorkflow
from holdfast.core.ids import check_name
from holdfast.core.payload import Arguments
from holdfast.core.plurals import counted
from holdfast.core.specs import StepSpec, WorkflowSpec
from holdfast.errors import DefinitionError

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Fake:
    """Replaces the real step, workflow or resource: `sim.use(fake)`.

    `Fake(charge, function)`: the function has the step's parameters and returns what the step returns, or a coroutine
    of it; it runs as the step's body, so it is retried, timed out and journaled like the real one. A workflow is faked
    in the same way, a resource by the value its steps get: `Fake(http, client)`.

    `calls` holds the arguments of every attempt, by name: `[{"order": Order("42", 999)}]`.
    """

    @overload
    def __init__(self, real: AnyStep[P, R], fake: Callable[P, R | Awaitable[R]]) -> None: ...
    @overload
    def __init__(self, real: AnyWorkflow[P, R], fake: Callable[P, R | Awaitable[R]]) -> None: ...
    @overload
    def __init__(self, real: Resource[T], fake: T) -> None: ...
    def __init__(self, real: Any, fake: Any) -> None:
        if not isinstance(real, AnyStep | AnyWorkflow | Resource):
            raise DefinitionError(
                f"Fake({real!r}, …): give a step, a workflow or a resource first, then what stands for it"
            )
        if isinstance(real, MachineWorkflow):
            raise DefinitionError(
                f"Fake({real.name}, …): a machine cannot be faked. Fake the resources and steps of its states"
            )
        self.real: AnyStep[..., Any] | AnyWorkflow[..., Any] | Resource[Any] | None = cast("Any", real)
        self.name: str = ""
        self.fake: Any = fake
        self.calls: list[dict[str, Any]] = []
        if not isinstance(real, Resource):
            _check_fits(cast("Any", real), fake)

    @classmethod
    def named(cls, name: str, fake: Callable[..., Any]) -> Fake:
        """Replaces every step of that name, such as an inline one: `step(fn, name="tool-search")(…)`. It gets the
        arguments of the step."""
        if not callable(fake):
            raise DefinitionError(f"Fake.named({name!r}, {fake!r}): give a function that stands for the step")
        made = cls.__new__(cls)
        made.real, made.name = None, check_name(name, "the name of a step")
        made.fake, made.calls = fake, []
        return made

    def __repr__(self) -> str:
        return f"<Fake of {self.name or repr(self.real)}, {counted(len(self.calls), 'call')}>"

    def in_place_of(self, spec: StepSpec) -> StepSpec:
        """That step with the fake as its body."""
        return replace(spec, function=self._body(spec.arguments), executor="async", tx=False)

    def step_spec(self) -> StepSpec:
        """The step with the fake as its body."""
        assert isinstance(self.real, AnyStep)
        spec = self.real.spec
        return replace(spec, function=self._body(spec.arguments), executor="async", tx=False)

    def workflow_spec(self) -> WorkflowSpec:
        """The workflow with the fake as its only step: what it did is journaled, and not repeated on replay."""
        assert isinstance(self.real, AnyWorkflow)
        spec = self.real.spec
        inner = functools.wraps(self.real.function)(self._body(spec.arguments))
        only_step = step(inner, name=self.real.name, raises=spec.raises)

        async def body(*args: Any, **kwargs: Any) -> Any:
            return await only_step(*args, **kwargs)

        return replace(spec, function=body, is_async=True, is_remote=False)

    def _body(self, arguments: Arguments) -> Callable[..., Any]:
        async def body(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(arguments.bind(args, kwargs))
            value = self.fake(*args, **kwargs)
            return await value if inspect.isawaitable(value) else value

        return body


def _check_fits(real: AnyStep[..., Any] | AnyWorkflow[..., Any], fake: Any) -> None:
    """Refuses a function that cannot take the arguments, since not every project uses a type checker."""
    if not callable(fake):
        raise DefinitionError(f"Fake({real.name}, {fake!r}): give a function with the parameters of {real.name}")
    try:
        theirs = inspect.signature(fake)
    except (TypeError, ValueError):  # some builtins have none
        return
    own = real.__signature__.parameters.values()
    by_position = [x for x in own if x.kind in {x.POSITIONAL_ONLY, x.POSITIONAL_OR_KEYWORD}]
    by_name = {x.name: x for x in own if x.kind is x.KEYWORD_ONLY}
    try:
        theirs.bind(*by_position, **by_name)
    except TypeError as error:
        raise DefinitionError(
            f"Fake({real.name}, …): {real.name} takes {real.__signature__}, the fake takes {theirs}: {error}"
        ) from None
