"""What authors declare: one definition for each handler, and the `.state` handlers with their undo."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast, overload

from holdfast.authoring.machine.breaker import Breaker
from holdfast.authoring.machine.joins import Join
from holdfast.authoring.script.definition_errors import check_function, check_raises, place_of
from holdfast.core.durations import Duration, parse_duration
from holdfast.core.retry import Retry
from holdfast.errors import DefinitionError

S = TypeVar("S")
N = TypeVar("N")
Raises = type[Exception] | tuple[type[Exception], ...]
Kind = Literal["state", "script", "router", "split", "stepped", "poll", "batch", "timer", "stream"]
OnError = Literal["fail", "skip"] | Retry


@dataclass(slots=True, eq=False)
class Undo:
    """How a completed state is undone."""

    function: Callable[..., Any]
    where: str
    retry: Retry | None = None
    timeout: timedelta | None = None


@dataclass(slots=True, eq=False)
class Definition:
    """One handler, before its annotations are read."""

    kind: Kind
    function: Callable[..., Any]
    where: str
    retry: Retry | None = None
    timeout: timedelta | None = None
    breaker: Breaker | None = None
    raises: tuple[type[Exception], ...] = ()
    was: str = ""
    undo: Undo | None = None
    branches: tuple[Callable[..., Any], ...] = ()
    join: Join = Join("all")  # noqa: RUF009 a frozen value
    bulkhead: int | None = None
    load: Callable[..., Any] | None = None
    each: Callable[..., Any] | None = None
    concurrency: int = 1
    item_retry: Retry = Retry.none
    wait: Callable[[Any], Duration | datetime] | None = None
    source: Callable[..., Any] | None = None
    window: int = 1
    within: timedelta | None = None
    on_error: OnError = "fail"
    errors: int = 0

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.function.__name__

    @property
    def is_async(self) -> bool:
        """Whether it is an `async def`."""
        return inspect.iscoroutinefunction(self.function)


def as_retry(retry: Retry | int | None) -> Retry | None:
    """A retry policy; a number is that many attempts."""
    return Retry(retry) if isinstance(retry, int) else retry


def as_duration(value: Duration | None, what: str) -> timedelta | None:
    return None if value is None else parse_duration(value, what=what)


def define(
    kind: Kind,
    function: Callable[..., Any],
    *,
    retry: Retry | int | None = None,
    timeout: Duration | None = None,
    breaker: Breaker | None = None,
    raises: Raises = (),
    was: str = "",
    **more: Any,
) -> Definition:
    """A definition of that kind, with checked options."""
    what = f"@machine.{kind}"
    check_function(function, what)
    return Definition(
        kind,
        function,
        place_of(function),
        retry=as_retry(retry),
        timeout=as_duration(timeout, f"timeout= of {what}"),
        breaker=breaker,
        raises=check_raises(raises, what),
        was=was,
        **more,
    )


class StateHandler(Generic[S, N]):
    """An `async def` handler of `.state`. Outside a machine it is the plain function."""

    def __init__(self, definition: Definition) -> None:
        functools.update_wrapper(cast("Callable[..., Any]", self), definition.function)
        self.definition: Definition = definition

    if TYPE_CHECKING:

        async def __call__(self, state: S, /) -> N: ...

    else:

        def __call__(self, state, /):
            return self.definition.function(state)

    @overload
    def undo(self, function: Callable[[N, S], Coroutine[Any, Any, None]], /) -> UndoHandler[N, S]: ...
    @overload
    def undo(
        self, *, retry: Retry | int | None = None, timeout: Duration | None = None
    ) -> Callable[[Callable[[N, S], Coroutine[Any, Any, None]]], UndoHandler[N, S]]: ...
    def undo(self, function: Any = None, **options: Any) -> Any:
        """Declares how to undo the completed state. The function gets what the state returned, then what it was
        given."""
        return _declare_undo(self.definition, function, options)


class SyncStateHandler(Generic[S, N]):
    """A `def` handler of `.state`: its body runs in a thread."""

    def __init__(self, definition: Definition) -> None:
        functools.update_wrapper(cast("Callable[..., Any]", self), definition.function)
        self.definition: Definition = definition

    def __call__(self, state: S, /) -> N:
        return cast("N", self.definition.function(state))

    @overload
    def undo(self, function: Callable[[N, S], Any], /) -> Callable[[N, S], Any]: ...
    @overload
    def undo(
        self, *, retry: Retry | int | None = None, timeout: Duration | None = None
    ) -> Callable[[Callable[[N, S], Any]], Callable[[N, S], Any]]: ...
    def undo(self, function: Any = None, **options: Any) -> Any:
        """Declares how to undo the completed state. The function gets what the state returned, then what it was
        given."""
        return _declare_undo(self.definition, function, options)


UndoHandler = Callable[[N, S], Coroutine[Any, Any, None]]


def _declare_undo(definition: Definition, function: Any, options: dict[str, Any]) -> Any:
    def declare(undo: Callable[..., Any]) -> Callable[..., Any]:
        check_function(undo, f"@{definition.name}.undo")
        if definition.undo is not None:
            raise DefinitionError(f"{place_of(undo)}: {definition.name} has an undo already, {definition.undo.where}")
        definition.undo = Undo(
            undo,
            place_of(undo),
            retry=as_retry(options.get("retry")),
            timeout=as_duration(options.get("timeout"), f"timeout= of @{definition.name}.undo"),
        )
        return undo

    return declare if function is None else declare(function)


class StateDecorator:
    """`@machine.state(…)` with options, waiting for its function."""

    def __init__(self, add: Callable[[Definition], None], options: dict[str, Any]) -> None:
        self._add = add
        self._options = options

    @overload
    def __call__(self, function: Callable[[S], Coroutine[Any, Any, N]], /) -> StateHandler[S, N]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, function: Callable[[S], N], /) -> SyncStateHandler[S, N]: ...
    def __call__(self, function: Callable[..., Any], /) -> Any:
        definition = define("state", function, **self._options)
        self._add(definition)
        return StateHandler[Any, Any](definition) if definition.is_async else SyncStateHandler[Any, Any](definition)
