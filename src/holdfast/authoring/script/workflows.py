"""`@workflow` and `@remote`: named, versioned definitions; calling one makes a `Call`.

A call says what to run. Awaited inside a run it is a child; given to `app.start` it is a new run. It binds, checks and
encodes its arguments when it is made.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Generator
from datetime import timedelta
from types import TracebackType
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

from msgspec import UNSET, UnsetType

from holdfast.authoring.script.accepted import Accepts, check_accepts, shapes_of, updates_of
from holdfast.authoring.script.bridge import block_on
from holdfast.authoring.script.calls import ChildCall
from holdfast.authoring.script.context import find_program, running_step
from holdfast.authoring.script.definition_errors import check_function, check_raises, code_of, place_of
from holdfast.authoring.script.place import Place, place
from holdfast.authoring.script.step_options import Raises
from holdfast.core.commands import StartChild
from holdfast.core.durations import Duration, parse_duration
from holdfast.core.hints import check_options
from holdfast.core.ids import check_name, child_id
from holdfast.core.instants import LONGEST_KEPT
from holdfast.core.payload import Arguments, result_shape
from holdfast.core.retry import Retry
from holdfast.core.specs import WorkflowSpec, check_step_limit
from holdfast.errors import DefinitionError, InvalidInput, NotAllowedHere, NotInRun

P = ParamSpec("P")
R = TypeVar("R")

_OPTIONS = ("name", "version", "deadline", "retry", "raises", "keep", "accepts", "step_limit")

CHILD_TIMEOUT = timedelta(days=365)


class Call(Coroutine[Any, Any, R], Generic[R]):
    """A workflow with its arguments, as a value: `fulfil(order)`. Awaited in a run it is a child; given to `app.start`,
    `start` or `sim.start` it is a new run."""

    def __init__(self, spec: WorkflowSpec, args: bytes, where: Place) -> None:
        self.spec = spec
        self.args = args
        self.child: ChildCall | None = None
        program = find_program()
        if program is not None:
            key = program.key_of(program.take_key(spec.name), spec.name, args, spec.arguments)
            command = StartChild(
                key=key,
                run=child_id(program.beginning.identity, key),
                workflow=spec.name,
                version=spec.version,
                args=args,
                deadline=spec.deadline,
                code=spec.code,
                style=spec.style,
                definition=spec.definition,
            )
            self.child = ChildCall(program, where, spec, command, CHILD_TIMEOUT)

    def __repr__(self) -> str:
        return f"<Call {self.spec.label} {self.args.decode()[:80]}>"

    def __hash__(self) -> int:
        return hash(self.child) if self.child is not None else id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def _in_run(self) -> ChildCall:
        if self.child is not None:
            return self.child
        scope = running_step.get()
        if scope is not None:
            advice = scope.advice or "await it in the workflow (a child run), or start it with app.start(…)"
            raise NotAllowedHere(f"workflow {self.spec.name} awaited in a step: {advice}")
        raise NotInRun(
            f"workflow {self.spec.name} awaited outside a run: start it with `await app.start({self.spec.name}(…))`, "
            f"or `app.run({self.spec.name}(…))` in a script"
        )

    def __await__(self) -> Generator[Any, Any, R]:
        return self._in_run().__await__()

    def send(self, value: Any) -> Any:
        """Resumes the call with a value, as for a coroutine."""
        return self._in_run().send(value)

    def throw(self, typ: Any, val: Any = None, tb: TracebackType | None = None) -> Any:
        """Raises an error inside the call, as for a coroutine."""
        return self._in_run().throw(typ, val, tb)

    def close(self) -> None:
        """As for a coroutine. A call that is only a value has nothing to close."""
        if self.child is not None:
            self.child.close()


def checked_call(call: object, verb: str) -> None:
    """Refuses anything but a call of a workflow, and says what it is."""
    if isinstance(call, Call):
        return
    if isinstance(call, AnyWorkflow):
        raise InvalidInput(f"{verb}({call.name}): give a call, {call.name}(…), which says what to run")
    if inspect.iscoroutine(call):
        name = call.__name__
        call.close()
        raise InvalidInput(
            f"{verb}({name}(…)): {name} is not a workflow. Outside a run a step is the plain function, and this is its "
            f"coroutine. Write {verb}({name}.call(…)) to run the step by itself, or a workflow that calls it."
        )
    raise InvalidInput(
        f"{verb} takes a call of a workflow such as hello('world'), got {call!r:.80}. A `def` workflow and a step make "
        "one with hello.call('world'); a step called outside a run is the plain function."
    )


class AnyWorkflow(Generic[P, R]):
    """What all workflows share. `is_open`: parts of the definition may follow, so it is read later."""

    is_open = False

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        version: str = "",
        deadline: Duration | None = None,
        retry: Retry | int | None = None,
        raises: Raises = (),
        keep: Duration | None = None,
        accepts: Accepts | None = None,
        step_limit: int | UnsetType | None = UNSET,
        is_remote: bool = False,
    ) -> None:
        what = "@remote" if is_remote else "@workflow"
        check_function(function, what)
        functools.update_wrapper(cast("Callable[..., Any]", self), function)
        self.__signature__: inspect.Signature = inspect.signature(function)
        self.function = function
        self.name: str = check_name(name if name is not None else function.__name__, "the name of a workflow")
        self.version: str = check_name(version, "version=") if version else ""
        self.where: str = place_of(function)
        self._deadline = _span(deadline, "deadline= of a workflow")
        self._retry = Retry(retry) if isinstance(retry, int) else retry or Retry.none
        self._raises = check_raises(raises, what)
        self._keep = _span(keep, "keep= of a workflow")
        self._accepts = check_accepts(accepts, what)
        self._step_limit = check_step_limit(step_limit, f"{what}(step_limit=…)")
        self._is_remote = is_remote

    def __repr__(self) -> str:
        return f"<workflow {self.name}{' ' + self.version if self.version else ''} ({self.where})>"

    def specs(self) -> tuple[WorkflowSpec, ...]:
        """The workflows to serve for it."""
        return (self.spec,)

    @functools.cached_property
    def spec(self) -> WorkflowSpec:
        """What the engine needs to know. Annotations are read here, at first use."""
        what = f"workflow {self.name}"
        return WorkflowSpec(
            name=self.name,
            version=self.version,
            function=self.function,
            is_async=inspect.iscoroutinefunction(self.function),
            arguments=Arguments(self.function, what=what),
            result=result_shape(self.function, what),
            retry=self._retry,
            deadline=self._deadline,
            raises=self._raises,
            code="" if self._is_remote else code_of(self.function),
            where=self.where,
            is_remote=self._is_remote,
            keep=self._keep,
            accepts=functools.partial(shapes_of, self._accepts, self.function),
            updates=functools.partial(updates_of, self._accepts, self.function),
            is_closed=self._accepts is not None,
            step_limit=self._step_limit,
        )

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any], where: Place) -> Call[R]:
        spec = self.spec
        return Call(spec, spec.arguments.encode(args, kwargs), where)


class Workflow(AnyWorkflow[P, R]):
    """An `async def` workflow."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        return self._call(args, kwargs, place(1))


class SyncWorkflow(AnyWorkflow[P, R]):
    """A `def` workflow, which runs in a thread. `.call(…)` makes the call."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        program = find_program()
        if program is None:
            raise NotInRun(
                f"workflow {self.name} called outside a run: start it with app.start({self.name}.call(…)), or "
                f"app.run({self.name}.call(…)) in a script"
            )
        if program.spec.is_async:
            raise NotAllowedHere(
                f"{self.name} is a sync workflow, called directly in an async one ({place(1)}): it would block. "
                f"Write: await {self.name}.call(…)"
            )
        return block_on(self._call(args, kwargs, place(1)), self.name)

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """The call as a value: for `app.start`, `gather`, `start`."""
        return self._call(args, kwargs, place(1))


class WorkflowDecorator:
    """`@workflow(…)` with options, waiting for its function."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Workflow[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, function: Callable[P, R], /) -> SyncWorkflow[P, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Any:
        return _make_workflow(function, self._options)


@overload
def workflow(function: Callable[P, Coroutine[Any, Any, R]], /) -> Workflow[P, R]: ...  # type: ignore[overload-overlap]
@overload
def workflow(function: Callable[P, R], /) -> SyncWorkflow[P, R]: ...
@overload
def workflow(
    *,
    name: str | None = None,
    version: str = "",
    deadline: Duration | None = None,
    retry: Retry | int | None = None,
    raises: Raises = (),
    keep: Duration | None = None,
    accepts: Accepts = (),
    step_limit: int | None = None,
) -> WorkflowDecorator: ...
def workflow(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Makes a function a workflow: ordinary Python whose steps, waits and children are durable.

    - `version`: runs are pinned to the version they began with; several may be served side by side
    - `deadline`: fails a run that takes longer, counted from its start
    - `retry`: restarts the body after an error outside steps; completed steps are kept. Default: no retry
    - `raises`: exceptions that `result()` and a parent get as themselves
    - `accepts`: the signals and updates it takes, such as `(approved,)`: another name, or a value of another type, is
      refused where it is sent. Default: any name; types are checked for those that the body names
    - `step_limit`: how many attempts of steps, waits and children a run may ask for; None: no limit. Default: the app's
    - `keep`: how long ended runs are kept. Default: the app's
    - `name`: the name in the journal. Default: the function's
    """
    check_options(options, _OPTIONS, "@workflow")
    return WorkflowDecorator(options) if function is None else _make_workflow(function, options)


@overload
def remote(function: Callable[P, Coroutine[Any, Any, R]], /) -> Workflow[P, R]: ...  # type: ignore[overload-overlap]
@overload
def remote(function: Callable[P, R], /) -> SyncWorkflow[P, R]: ...
@overload
def remote(
    *, name: str | None = None, version: str = "", raises: Raises = (), accepts: Accepts = ()
) -> WorkflowDecorator: ...
def remote(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Declares a workflow that another process serves: typed calls, without its code."""
    check_options(options, ("name", "version", "raises", "accepts"), "@remote")
    options["is_remote"] = True
    return WorkflowDecorator(options) if function is None else _make_workflow(function, options)


def _span(value: Duration | None, what: str) -> timedelta | None:
    return None if value is None else parse_duration(value, what=what, most=LONGEST_KEPT)


def _make_workflow(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    if isinstance(function, AnyWorkflow):
        raise DefinitionError(f"{function.where}: {function.name} is a workflow already")
    kind: Any = Workflow if inspect.iscoroutinefunction(function) else SyncWorkflow
    return kind(function, **options)
