"""`@step`: one named unit of work whose outcome is journaled.

A decorated function keeps its type. Outside a run it is the plain function; in a run, a call becomes a durable call
that takes its key and encodes its arguments at once. Definitions do no I/O and register nothing.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, cast, overload

from holdfast.authoring.limit import AnyLimit, Limit, LimitUse
from holdfast.authoring.script._stdlib import caller_frame
from holdfast.authoring.script.bridge import block_on
from holdfast.authoring.script.calls import StepCall
from holdfast.authoring.script.context import find_program
from holdfast.authoring.script.definition_errors import check_function, place_of
from holdfast.authoring.script.place import Place, authors_place, place
from holdfast.authoring.script.scope import Done, current_scope
from holdfast.authoring.script.step_options import Raises, StepOptions
from holdfast.authoring.script.step_run import run_spec
from holdfast.authoring.script.workflows import Call
from holdfast.core.durations import Duration, parse_duration
from holdfast.core.hints import check_options
from holdfast.core.ids import check_name
from holdfast.core.payload import Arguments, result_shape
from holdfast.core.retry import Retry
from holdfast.core.specs import Executor, InputKept, StepSpec, WorkflowSpec
from holdfast.errors import DefinitionError, NotAllowedHere

if TYPE_CHECKING:
    from holdfast.authoring.script.script_program import ScriptProgram

P = ParamSpec("P")
R = TypeVar("R")


class AnyStep(Generic[P, R]):
    """What async and sync steps share."""

    def __init__(self, function: Callable[..., Any], options: StepOptions) -> None:
        check_function(function, "@step")
        functools.update_wrapper(cast("Callable[..., Any]", self), function)
        self.__signature__: inspect.Signature = inspect.signature(function)
        self.function = function
        self.options_given = options
        self.name: str = options.name or function.__name__
        self.undo_step: AnyStep[..., Any] | None = None
        self.limit_use: LimitUse | None = LimitUse(options.limits, place_of(function)) if options.limits else None
        is_async = inspect.iscoroutinefunction(function)
        if is_async and options.executor is not None:
            raise DefinitionError(f"{place_of(function)}: executor={options.executor!r} is for `def` steps")
        self._executor: Executor = "async" if is_async else options.executor or "thread"

    def __repr__(self) -> str:
        return f"<step {self.name} ({place_of(self.function)})>"

    @functools.cached_property
    def spec(self) -> StepSpec:
        """What the engine needs to know. Annotations are read here, at first use."""
        given = self.options_given
        what = f"step {self.name}"
        use, arguments = self.limit_use, Arguments(self.function, what=what)
        if use is not None:
            use.check(arguments)
        return StepSpec(
            name=self.name,
            function=self.function,
            executor=self._executor,
            arguments=arguments,
            result=result_shape(self.function, what),
            retry=Retry.none if given.once else given.retry,
            timeout=given.timeout,
            once=given.once,
            tx=given.tx,
            raises=given.raises,
            where=place_of(self.function),
            compares=given.compare,
            input=given.input,
            limits=() if use is None else tuple(sorted(use.limits)),
            demands=None if use is None else use.demands(arguments),
            limit_wait=given.limit_wait,
        )

    @functools.cached_property
    def run_spec(self) -> WorkflowSpec:
        """The workflow behind `.call(…)`: a run that is this one step."""
        return run_spec(self, self.spec)

    def limit(self, limit: Limit) -> Callable[[Callable[P, str]], Callable[P, str]]:
        """Declares a function of the step's parameters that computes the key of one of its limits."""
        return functools.partial(self._register_key, limit)

    def _register_key(self, limit: Limit, function: Callable[P, str]) -> Callable[P, str]:
        own, theirs = inspect.signature(self.function).parameters, inspect.signature(function).parameters
        if list(own) != list(theirs) or inspect.iscoroutinefunction(function):
            raise DefinitionError(
                f"{place_of(function)}: the key of a limit of {self.name} is a `def` with the step's parameters "
                f"({', '.join(own)}), not ({', '.join(theirs)})"
            )
        if self.limit_use is None:
            raise DefinitionError(f"{place_of(function)}: step {self.name} has no limits: @step(limits=[…])")
        self.limit_use.compute(limit, function)
        return function

    def durable_call(self, program: ScriptProgram, args: tuple[Any, ...], kwargs: dict[str, Any]) -> StepCall[Any]:
        """The call as a durable one, in a run (used by `asyncio.to_thread`, `gather` and `each`)."""
        return self.make_call(program, args, kwargs, authors_place() or place(3))

    def make_call(
        self,
        program: ScriptProgram,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        where: Place,
        *,
        key: str | None = None,
        retry: Retry | None = None,
        timeout: timedelta | None = None,
    ) -> StepCall[Any]:
        """A durable call that takes its key and encodes its arguments now."""
        spec = self.spec
        taken = program.keys.take(key or spec.name)
        cursor = program.cursor
        encoded = spec.arguments.encode(args, kwargs, None if cursor is None else cursor.recorded_args(taken))
        if key is None and program.earlier is not None and spec.compares:
            taken = program.key_of(taken, spec.name, encoded, spec.arguments)
        undo = self.undo_step
        if undo is None:
            return StepCall(program, taken, where, spec, encoded, retry, timeout)
        return StepCall(program, taken, where, spec, encoded, retry, timeout, scope=current_scope.get(), undo=undo)

    def undo_call(self, program: ScriptProgram, done: Done) -> StepCall[Any]:
        """This step as the undo of a completed one. It gets the result first, then that step's arguments."""
        spec = self.spec
        args, kwargs = done.undo_arguments()
        encoded = spec.arguments.encode(args, kwargs)
        return StepCall(program, program.take_key(spec.name), place(2), spec, encoded, undoes=done.key)

    def _register_undo(self, undo: AnyStep[..., Any]) -> None:
        own = list(inspect.signature(self.function).parameters.values())
        theirs = list(inspect.signature(undo.function).parameters.values())
        by_position = [x for x in own if x.kind is not x.KEYWORD_ONLY]
        by_name = {x.name for x in own if x.kind is x.KEYWORD_ONLY}
        fits = len([x for x in theirs if x.kind is not x.KEYWORD_ONLY]) == len(by_position) + 1
        if not fits or {x.name for x in theirs if x.kind is x.KEYWORD_ONLY} != by_name:
            wanted = ", ".join(["result", *(x.name for x in own)])
            raise DefinitionError(
                f"{place_of(undo.function)}: the undo of {self.name} takes its result first and then its parameters "
                f"({wanted}), not ({', '.join(x.name for x in theirs)})"
            )
        if self.undo_step is not None:
            raise DefinitionError(
                f"{place_of(undo.function)}: {self.name} has an undo already, {place_of(self.undo_step.function)}"
            )
        self.undo_step = undo


class Step(AnyStep[P, R]):
    """An `async def` step. In a run, calling it is durable; outside, it is the plain function."""

    if TYPE_CHECKING:

        async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

    else:

        def __call__(self, *args, **kwargs):
            program = find_program()
            if program is None:
                return self.function(*args, **kwargs)
            frame = caller_frame(1)
            return self.make_call(program, args, kwargs, Place(frame.f_code, frame.f_lasti))

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """The step as a run of its own, for `app.start`; in a run: as a child."""
        return Call(self.run_spec, self.spec.arguments.encode(args, kwargs), place(1))

    def options(
        self, *, key: str | None = None, retry: Retry | int | None = None, timeout: Duration | None = None
    ) -> StepWithOptions[P, R]:
        """The same step with options for one call: `charge.options(key="tip")(order)`. `key` fixes its identity."""
        return StepWithOptions(self, key, retry, timeout)

    def undo(self, function: Callable[Concatenate[R, P], Coroutine[Any, Any, Any]]) -> Step[Concatenate[R, P], Any]:
        """Declares how to undo a completed call. The function gets the result first, then the step's parameters."""
        undo: Step[Concatenate[R, P], Any] = (
            cast("Any", function) if isinstance(function, AnyStep) else Step(function, StepOptions())
        )
        self._register_undo(undo)
        return undo


if sys.version_info >= (3, 12):
    inspect.markcoroutinefunction(Step)  # what asks for a coroutine function (a web framework, a task runner) gets one
else:
    setattr(Step, "_is_coroutine", getattr(asyncio.coroutines, "_is_coroutine"))  # noqa: B009, B010


class SyncStep(AnyStep[P, R]):
    """A `def` step: in a thread, or in a process that can be killed. In an async workflow it is called with
    `await asyncio.to_thread(label, order)`, in a sync one directly."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        program = find_program()
        if program is None:
            return cast("R", self.function(*args, **kwargs))
        if program.spec.is_async:
            raise NotAllowedHere(
                f"{self.name} is a sync step, called directly in an async workflow ({place(1)}): it would block. "
                f"Write: await asyncio.to_thread({self.name}, …)"
            )
        return cast("R", block_on(self.make_call(program, args, kwargs, place(1)), self.name))

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """The step as a run of its own, for `app.start`; in a run: the call as a value, for `gather`."""
        program = find_program()
        if program is not None:
            return cast("Call[R]", self.make_call(program, args, kwargs, place(1)))
        return Call(self.run_spec, self.spec.arguments.encode(args, kwargs), place(1))

    def options(
        self, *, key: str | None = None, retry: Retry | int | None = None, timeout: Duration | None = None
    ) -> SyncStepWithOptions[P, R]:
        """The same step with options for one call: `charge.options(key="tip")(order)`. `key` fixes its identity."""
        return SyncStepWithOptions(self, key, retry, timeout)

    def undo(self, function: Callable[Concatenate[R, P], Any]) -> AnyStep[Concatenate[R, P], Any]:
        """Declares how to undo a completed call. The function gets the result first, then the step's parameters."""
        undo: AnyStep[Concatenate[R, P], Any]
        if isinstance(function, AnyStep):
            undo = cast("Any", function)
        elif inspect.iscoroutinefunction(function):
            undo = Step(function, StepOptions())
        else:
            undo = SyncStep(function, StepOptions())
        self._register_undo(undo)
        return undo


class _WithOptions(Generic[P, R]):
    """A step and the options of one call."""

    def __init__(
        self, step: AnyStep[P, R], key: str | None, retry: Retry | int | None, timeout: Duration | None
    ) -> None:
        self._step = step
        self._key = check_name(key, "key=") if key is not None else None
        self._retry = Retry(retry) if isinstance(retry, int) else retry
        self._timeout = parse_duration(timeout, what="timeout=") if timeout is not None else None

    def durable_call(self, program: ScriptProgram, args: tuple[Any, ...], kwargs: dict[str, Any]) -> StepCall[Any]:
        return self._make(program, args, kwargs, authors_place() or place(3))

    def _make(
        self, program: ScriptProgram, args: tuple[Any, ...], kwargs: dict[str, Any], where: Place
    ) -> StepCall[Any]:
        return self._step.make_call(
            program, args, kwargs, where, key=self._key, retry=self._retry, timeout=self._timeout
        )


class StepWithOptions(_WithOptions[P, R]):
    """`charge.options(key=…)`: called like the step."""

    if TYPE_CHECKING:

        async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

    else:

        def __call__(self, *args, **kwargs):
            program = find_program()
            if program is None:
                return self._step.function(*args, **kwargs)
            return self._make(program, args, kwargs, place(1))


class SyncStepWithOptions(_WithOptions[P, R]):
    """`load.options(key=…)`: called like the step."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        program = find_program()
        if program is None:
            return cast("R", self._step.function(*args, **kwargs))
        if program.spec.is_async:
            raise NotAllowedHere(
                f"{self._step.name} is a sync step, called directly in an async workflow ({place(1)}): it would block. "
                f"Write: await asyncio.to_thread({self._step.name}.options(…), …)"
            )
        return cast("R", block_on(self._make(program, args, kwargs, place(1)), self._step.name))

    def call(self, *args: P.args, **kwargs: P.kwargs) -> StepCall[R]:
        """The call as a value."""
        program = find_program()
        if program is None:
            raise NotAllowedHere(f"{self._step.name}.call(…) works inside a run only")
        return self._make(program, args, kwargs, place(1))


class StepDecorator:
    """`@step(…)` with options, waiting for its function."""

    def __init__(self, options: StepOptions) -> None:
        self._options = options

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Step[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, function: Callable[P, R], /) -> SyncStep[P, R]: ...
    def __call__(self, function: Callable[..., Any], /) -> Any:
        return _make_step(function, self._options)


@overload
def step(  # type: ignore[overload-overlap]
    function: Callable[P, Coroutine[Any, Any, R]],
    /,
    *,
    name: str | None = None,
    retry: Retry | int | None = None,
    timeout: Duration | None = None,
    once: bool = False,
    tx: bool = False,
    raises: Raises = (),
    compare: bool = True,
    input: InputKept = "keep",
    limits: Sequence[AnyLimit] = (),
    limit_wait: Duration | None = None,
) -> Step[P, R]: ...
@overload
def step(
    function: Callable[P, R],
    /,
    *,
    name: str | None = None,
    retry: Retry | int | None = None,
    timeout: Duration | None = None,
    once: bool = False,
    tx: bool = False,
    raises: Raises = (),
    executor: Literal["thread", "process"] | None = None,
    compare: bool = True,
    input: InputKept = "keep",
    limits: Sequence[AnyLimit] = (),
    limit_wait: Duration | None = None,
) -> SyncStep[P, R]: ...
@overload
def step(
    *,
    name: str | None = None,
    retry: Retry | int | None = None,
    timeout: Duration | None = None,
    once: bool = False,
    tx: bool = False,
    raises: Raises = (),
    executor: Literal["thread", "process"] | None = None,
    compare: bool = True,
    input: InputKept = "keep",
    limits: Sequence[AnyLimit] = (),
    limit_wait: Duration | None = None,
) -> StepDecorator: ...
def step(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Makes a function a durable step. Also inline: `step(fn, name="mail")(…)`.

    - `retry`: when a failed attempt is retried; a number is the number of attempts. Default: the app's `step_retry`
    - `timeout`: limits one attempt
    - `once`: at most one attempt ever; if it is interrupted, the workflow gets `OutcomeUnknown`
    - `tx`: what it writes through `transaction(…)` and its outcome are one transaction: exactly once. On SQLite nothing
      else writes to the file while the body runs: keep it short
    - `raises`: exceptions that count as answers: not retried, and raised unchanged in the workflow
    - `executor`: where a `def` step runs: in a thread, or in its own process, which can be terminated
    - `compare`: False lets a replay ask for the step with arguments that differ from the journal
    - `input`: "hash" records a hash of the arguments instead of them, for large ones that the workflow has anyway
    - `limits`: limits that each attempt waits for: `[api, customer.by("item.customer")]`
    - `limit_wait`: how long an attempt waits at most; then the workflow gets `LimitReached`. Default: forever
    - `name`: the name in the journal. Default: the function's
    """
    check_options(options, StepOptions.__slots__, "@step")
    given = StepOptions(**options)
    return StepDecorator(given) if function is None else _make_step(function, given)


def _make_step(function: Callable[..., Any], options: StepOptions) -> Any:
    if isinstance(function, AnyStep):
        raise DefinitionError(
            f"{function!r} is a step already. For another name or policy, decorate its function again"
        )
    kind: Any = Step if inspect.iscoroutinefunction(function) else SyncStep
    return kind(function, options)
