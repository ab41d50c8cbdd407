"""`@resource`: something a worker opens once for its steps, closes at shutdown, and tests replace.

A worker opens the resources that its steps name before it claims its first run, so `http()` in a step is a plain call.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from typing import Any, Generic, Literal, TypeAlias, TypeGuard, TypeVar, cast, overload

from holdfast.authoring.script.context import find_program, running_step
from holdfast.authoring.script.definition_errors import place_of
from holdfast.authoring.script.functions import is_a
from holdfast.authoring.script.named import named_by
from holdfast.errors import DefinitionError, NotAllowedHere, NotInRun

T = TypeVar("T")
Health: TypeAlias = Literal["healthy", "degraded", "unhealthy"]


class Resource(Generic[T]):
    """A definition of something to open once per worker."""

    def __init__(self, function: Callable[[], AsyncIterator[T]] | Callable[[], Iterator[T]]) -> None:
        if not (inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function)):
            raise DefinitionError(
                f"{place_of(function)}: @resource decorates a generator that yields once: open, yield, close"
            )
        functools.update_wrapper(cast("Callable[..., Any]", self), function)
        self.function = function
        self.name: str = function.__name__
        self._check: Callable[[T], Any] | None = None

    def __repr__(self) -> str:
        return f"<resource {self.name} ({place_of(self.function)})>"

    def health(self, check: Callable[[T], Any]) -> Callable[[T], Any]:
        """Declares a health check of the opened resource: it returns "healthy", "degraded" or "unhealthy", or a
        bool."""
        self._check = check
        return check

    async def ask(self, value: T) -> Health:
        """The health of the resource. A check that raises means unhealthy."""
        if self._check is None:
            return "healthy"
        try:
            answer: Any = self._check(value)
            if inspect.isawaitable(answer):
                answer = await answer
        except Exception:  # noqa: BLE001 whatever a check raises is its answer
            return "unhealthy"
        if isinstance(answer, bool):
            return "healthy" if answer else "unhealthy"
        return answer if answer in ("healthy", "degraded", "unhealthy") else "unhealthy"

    def __call__(self) -> T:
        """The opened resource, in a step."""
        scope = running_step.get()
        if scope is not None:
            return cast("T", scope.surroundings.resource(self))
        if find_program() is not None:
            raise NotAllowedHere(
                f"resource {self.name} asked for in a workflow body: a workflow replays, so it must not touch the "
                "outside world. Ask for it in a step."
            )
        raise NotInRun(f"resource {self.name} is opened by a worker and works in the body of a step of a run")


@overload
def resource(function: Callable[[], AsyncIterator[T]], /) -> Resource[T]: ...
@overload
def resource(function: Callable[[], Iterator[T]], /) -> Resource[T]: ...
def resource(function: Callable[..., Any], /) -> Resource[Any]:
    """Declares something a worker opens once for its steps: a generator that opens, yields once, and closes.

    In the body of a step, `http()` then returns the opened resource. Tests replace it: `sim.use(Fake(http, client))`.
    """
    return Resource(function)


def resources_named_by(
    functions: Iterable[Callable[..., Any]], *, without: Collection[int] = ()
) -> list[Resource[Any]]:
    """The resources that these functions use, directly or through the steps and functions they name, in order of
    discovery."""
    return resources_among(named_by(functions, without=without))


def resources_among(values: Iterable[Any]) -> list[Resource[Any]]:
    return [value for value in values if _is_resource(value)]


def _is_resource(value: object) -> TypeGuard[Resource[Any]]:
    return is_a(value, (Resource,))
