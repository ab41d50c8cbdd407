"""`Machine` as authors declare it: states as dataclasses, handlers as functions, annotations as edges.

Declaring a machine does no I/O, and it is not checked as a whole, since handlers may still follow. It is built when it
is first used (called, run, drawn, or served by a worker); then all problems are reported together.
"""

from __future__ import annotations

import functools
import typing
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from holdfast.authoring.machine.breaker import Breaker
from holdfast.authoring.machine.driver import workflow_spec
from holdfast.authoring.machine.handlers import (
    Definition,
    OnError,
    Raises,
    StateDecorator,
    StateHandler,
    SyncStateHandler,
    as_duration,
    as_retry,
    define,
)
from holdfast.authoring.machine.joins import Join
from holdfast.authoring.machine.machine_diagram import mermaid, svg
from holdfast.authoring.machine.marks import Again, ItemOutcome, More, Window
from holdfast.authoring.machine.model import Model, Options, Reader
from holdfast.authoring.machine.observers import Audience, Observer
from holdfast.authoring.script.definition_errors import check_raises
from holdfast.authoring.script.place import place
from holdfast.authoring.script.workflows import AnyWorkflow, Call
from holdfast.core.durations import Duration, parse_duration
from holdfast.core.ids import check_name
from holdfast.core.instants import kept_instant
from holdfast.core.retry import Retry
from holdfast.core.specs import WorkflowSpec
from holdfast.errors import DefinitionError

if TYPE_CHECKING:
    from holdfast.authoring.script.resources import Resource

F = TypeVar("F")
E = TypeVar("E")
S = TypeVar("S")
N = TypeVar("N")
B = TypeVar("B")
C = TypeVar("C")
T = TypeVar("T")
R = TypeVar("R")

Body = Callable[[S], Coroutine[Any, Any, N]]


class MachineWorkflow(AnyWorkflow[[F], E], Generic[F, E]):
    """A `Machine` without the ways to run it outside an app (`holdfast.standalone`)."""

    is_open = True

    def __init__(
        self,
        name: str,
        *,
        version: str = "",
        timeout: Duration | None = None,
        compensation_timeout: Duration | None = None,
        retry: Retry | int | None = None,
        raises: Raises = (),
        observers: Sequence[Observer] = (),
        resources: Sequence[Resource[Any]] = (),
        was: Mapping[str, type] | None = None,
    ) -> None:
        self.name: str = check_name(name, "the name of a machine")
        self.version: str = check_name(version, "version=") if version else ""
        frame = 2 if _is_subscripted() else 1
        self.where: str = str(place(frame))
        self.__name__: str = self.name
        self.resources: tuple[Resource[Any], ...] = tuple(resources)
        self._options = Options(
            timeout=as_duration(timeout, "timeout= of a machine"),
            compensation_timeout=as_duration(compensation_timeout, "compensation_timeout= of a machine"),
            retry=as_retry(retry),
            raises=check_raises(raises, "Machine"),
            audience=Audience(observers),
        )
        self._was = dict(was or {})
        self._definitions: list[Definition] = []
        self._model: Model | None = None

    def __repr__(self) -> str:
        return f"<machine {self.name}{' ' + self.version if self.version else ''} ({self.where})>"

    def _add(self, definition: Definition) -> None:
        if self._model is not None:
            raise DefinitionError(
                f"{definition.where}: machine {self.name} is in use already; declare all states before its first use"
            )
        self._definitions.append(definition)

    def build(self) -> Model:
        """Reads the annotations and checks the whole machine. Raises `DefinitionError` with every problem."""
        if self._model is None:
            alias = getattr(self, "__orig_class__", None)
            generic = typing.get_args(alias) if alias is not None else ()
            pair = (generic[0], generic[1]) if len(generic) == 2 else None
            self._model = Reader(
                self.name, self.version, self.where, pair, self._definitions, self._was, self._options
            ).build()
        return self._model

    @functools.cached_property
    def spec(self) -> WorkflowSpec:
        """What the engine needs to know. Builds the machine at first use."""
        return workflow_spec(self.build(), self.resources)

    @functools.cached_property
    def compensation_spec(self) -> WorkflowSpec:
        """The workflow that finishes a rollback that failed: see `holdfast compensate`."""
        from holdfast.authoring.machine.undo_plan import compensation_spec

        return compensation_spec(self.build(), self.resources)

    def specs(self) -> tuple[WorkflowSpec, WorkflowSpec]:
        """The workflows to serve for it."""
        return self.spec, self.compensation_spec

    def __call__(self, state: F) -> Call[E]:
        """The machine with its first state, as a value: for `app.start`, or awaited in a run as a child."""
        return self._call((state,), {}, place(1))

    # -- handlers ------------------------------------------------------------------------------------------------------

    @overload
    def state(self, function: Callable[[S], Coroutine[Any, Any, N]], /) -> StateHandler[S, N]: ...  # type: ignore[overload-overlap]
    @overload
    def state(self, function: Callable[[S], N], /) -> SyncStateHandler[S, N]: ...
    @overload
    def state(
        self,
        *,
        retry: Retry | int | None = None,
        timeout: Duration | None = None,
        breaker: Breaker | None = None,
        raises: Raises = (),
        was: str = "",
    ) -> StateDecorator: ...
    def state(self, function: Callable[..., Any] | None = None, **options: Any) -> Any:
        """A body that may do anything, like a step: after a crash it runs again from its beginning."""
        decorator: Any = StateDecorator(self._add, options)
        return decorator if function is None else decorator(function)

    @overload
    def script(self, function: Body[S, N], /) -> Body[S, N]: ...
    @overload
    def script(self, *, raises: Raises = (), was: str = "") -> Callable[[Body[S, N]], Body[S, N]]: ...
    def script(self, function: Any = None, **options: Any) -> Any:
        """A body that uses the durable verbs, like a workflow: after a crash it replays."""
        return self._declare("script", function, options)

    @overload
    def router(self, function: Callable[[S], N], /) -> Callable[[S], N]: ...
    @overload
    def router(self, *, was: str = "") -> Callable[[Callable[[S], N]], Callable[[S], N]]: ...
    def router(self, function: Any = None, **options: Any) -> Any:
        """Decides from the state alone, without effects; nothing is recorded."""
        return self._declare("router", function, options)

    def split(
        self,
        *branches: Callable[[S], Coroutine[Any, Any, B]],
        join: Join | None = None,
        timeout: Duration | None = None,
        bulkhead: int | None = None,
        retry: Retry | int | None = None,
        breaker: Breaker | None = None,
        raises: Raises = (),
        was: str = "",
    ) -> Callable[[Callable[[S, list[B]], Coroutine[Any, Any, N]]], Callable[[S, list[B]], Coroutine[Any, Any, N]]]:
        """Branches that run side by side, at most `bulkhead` at a time; the handler gets the results of those that
        succeeded."""

        def declare(function: Any) -> Any:
            options: dict[str, Any] = {"branches": branches, "join": join or Join.all(), "bulkhead": bulkhead}
            common = {"timeout": timeout, "retry": retry, "breaker": breaker, "raises": raises, "was": was}
            return self._declare("split", function, {**options, **common})

        return declare

    @overload
    def stepped(
        self, function: Callable[[S, C | None], Coroutine[Any, Any, More[C] | N]], /
    ) -> Callable[[S, C | None], Coroutine[Any, Any, More[C] | N]]: ...
    @overload
    def stepped(
        self,
        *,
        retry: Retry | int | None = None,
        timeout: Duration | None = None,
        breaker: Breaker | None = None,
        raises: Raises = (),
        was: str = "",
    ) -> Callable[
        [Callable[[S, C | None], Coroutine[Any, Any, More[C] | N]]],
        Callable[[S, C | None], Coroutine[Any, Any, More[C] | N]],
    ]: ...
    def stepped(self, function: Any = None, **options: Any) -> Any:
        """Called again for as long as it returns `More(cursor)`; each cursor is durable before the next call."""
        return self._declare("stepped", function, options)

    @overload
    def poll(
        self, function: Callable[[S], Coroutine[Any, Any, Again | N]], /
    ) -> Callable[[S], Coroutine[Any, Any, Again | N]]: ...
    @overload
    def poll(
        self, *, errors: int = 0, timeout: Duration | None = None, raises: Raises = (), was: str = ""
    ) -> Callable[[Callable[[S], Coroutine[Any, Any, Again | N]]], Callable[[S], Coroutine[Any, Any, Again | N]]]: ...
    def poll(self, function: Any = None, **options: Any) -> Any:
        """Called again after each `Again(…)`. It tolerates `errors` failures in a row; `timeout` limits the whole
        poll."""
        return self._declare("poll", function, options)

    def batch(
        self,
        load: Callable[[S], Coroutine[Any, Any, list[T]]],
        each: Callable[[T], Coroutine[Any, Any, R]],
        *,
        concurrency: int = 1,
        item_retry: Retry | int | None = None,
        retry: Retry | int | None = None,
        was: str = "",
    ) -> Callable[
        [Callable[[S, list[ItemOutcome[R]]], Coroutine[Any, Any, N]]],
        Callable[[S, list[ItemOutcome[R]]], Coroutine[Any, Any, N]],
    ]:
        """`load` returns the items, `each` handles one, and the handler gets one outcome per item, in their order. A
        failed item is an outcome, not an error. After a crash, finished items keep their outcomes."""

        def declare(function: Any) -> Any:
            policy = as_retry(item_retry) or Retry.none
            options = {"load": load, "each": each, "concurrency": concurrency, "item_retry": policy}
            return self._declare("batch", function, {**options, "retry": retry, "was": was})

        return declare

    def timer(
        self,
        wait: Duration | datetime | Callable[[Any], Duration | datetime],
        *,
        retry: Retry | int | None = None,
        was: str = "",
    ) -> Callable[[Body[S, N]], Body[S, N]]:
        """Waits durably, then calls the handler. A resumed timer waits only for the rest."""

        def declare(function: Any) -> Any:
            chosen: Callable[[Any], Duration | datetime]
            if callable(wait):
                chosen = wait
            else:
                fixed = (
                    kept_instant(wait, "@machine.timer")
                    if isinstance(wait, datetime)
                    else parse_duration(wait, what="@machine.timer")
                )

                def always(_: Any) -> Duration | datetime:
                    return fixed

                chosen = always

            return self._declare("timer", function, {"wait": chosen, "retry": retry, "was": was})

        return declare

    def stream(
        self,
        source: Callable[[S, C | None], AsyncIterator[tuple[C, T]]],
        *,
        window: int = 1,
        within: Duration | None = None,
        on_error: OnError = "fail",
        timeout: Duration | None = None,
        was: str = "",
    ) -> Callable[
        [Callable[[S, Window[T]], Coroutine[Any, Any, N | None]]],
        Callable[[S, Window[T]], Coroutine[Any, Any, N | None]],
    ]:
        """Reads (cursor, item) pairs and hands them over in windows; the cursor is durable after each window.

        A window is full with `window` items, or after `within`. `timeout` limits the handling of one window; `on_error`
        says what happens to a window that fails: the state fails, the window is skipped, or it is tried again under a
        `Retry` and then skipped.
        """

        def declare(function: Any) -> Any:
            options: dict[str, Any] = {"source": source, "window": window, "on_error": on_error}
            more = {"within": as_duration(within, "within="), "timeout": timeout, "was": was}
            return self._declare("stream", function, {**options, **more})

        return declare

    def _declare(self, kind: Any, function: Any, options: dict[str, Any]) -> Any:
        def declare(given: Any) -> Any:
            self._add(define(kind, given, **options))
            return given

        return declare if function is None else declare(function)

    # -- pictures ------------------------------------------------------------------------------------------------------

    def diagram(self, format: Literal["mermaid", "svg"] = "mermaid") -> str:
        """The machine as Mermaid text, or as an SVG picture."""
        model = self.build()
        return mermaid(model) if format == "mermaid" else svg(model)


def _is_subscripted() -> bool:
    """Whether the instance is made through `Machine[…](…)`, which adds a frame of `typing`."""
    return "/typing.py:" in str(place(2))
