"""What a flow calls: a step or a workflow of the app, with plain JSON in and out.

A flow knows data; its components have types. Arguments are decoded by the component's annotations before they are
recorded, so a value of the wrong type is an error of that step and is never stored. Results stay the JSON that the
journal holds.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec.structs import replace

from holdfast.authoring.script.calls import ChildCall, StepCall
from holdfast.authoring.script.place import Place
from holdfast.authoring.script.scope import Done, current_scope
from holdfast.authoring.script.workflows import CHILD_TIMEOUT
from holdfast.core.codec import Codec, encode_plain
from holdfast.core.commands import StartChild
from holdfast.core.ids import child_id
from holdfast.core.payload import Shape
from holdfast.errors import InvalidArguments, NotDecodable

if TYPE_CHECKING:
    from holdfast.authoring.script.script_program import ScriptProgram
    from holdfast.authoring.script.steps import AnyStep
    from holdfast.core.payload import Arguments
    from holdfast.core.retry import Retry
    from holdfast.core.specs import StepSpec, WorkflowSpec


class Plain(Shape[Any]):
    """Encodes what a body returns by its annotation, and returns the JSON itself."""

    __slots__ = ("typed",)

    def __init__(self, typed: Shape[Any]) -> None:
        super().__init__(Any, what=typed.what)
        self.typed: Shape[Any] = typed

    def check(self) -> Codec:
        return self.typed.check()

    def encode(self, value: Any, path: str = "") -> bytes:
        return self.typed.encode(value, path)

    def decode(self, data: bytes | msgspec.Raw) -> Any:
        """The JSON as plain values."""
        try:
            return msgspec.json.decode(data)
        except msgspec.MsgspecError as error:
            raise NotDecodable(f"{self.what}: {error}") from None

    def round_trip(self, value: Any, path: str = "") -> tuple[bytes, Any]:
        return self.typed.round_trip(value, path)


class _Undo:
    """The undo of a component's call. Its result, kept as JSON, is decoded by annotation again."""

    def __init__(self, undo: AnyStep[..., Any], result: Shape[Any]) -> None:
        self._undo = undo
        self._result = result

    def undo_call(self, program: ScriptProgram, done: Done) -> StepCall[Any]:
        typed = self._result.decode(msgspec.json.encode(done.result))
        return self._undo.undo_call(program, Done(done.key, done.undo, typed, done.args, done.spec))


class StepTarget:
    """A step of the app."""

    definition: bytes = b""

    def __init__(self, step: AnyStep[..., Any]) -> None:
        spec = step.spec
        self._spec = replace(spec, result=Plain(spec.result))
        self._undo = None if step.undo_step is None else _Undo(step.undo_step, spec.result)
        self._place = Place(step.function.__code__, 0)
        undo = () if step.undo_step is None else (step.undo_step.function,)
        self.bodies: tuple[Callable[..., Any], ...] = (step.function, *undo)

    def call(
        self,
        program: ScriptProgram,
        key: str,
        given: dict[str, Any],
        variables: dict[str, Any],
        retry: Retry | None,
        timeout: timedelta | None,
    ) -> StepCall[Any]:
        """The durable call. It takes its key and encodes its arguments now."""
        spec = self._spec
        _only_for_flows(spec, variables)
        taken = program.take_key(key)
        cursor = program.cursor
        recorded = None if cursor is None else cursor.recorded_args(taken)
        args = encoded_arguments(spec.arguments, given, recorded)
        scope = None if self._undo is None else current_scope.get()
        return StepCall(program, taken, self._place, spec, args, retry, timeout, scope=scope, undo=self._undo)


class ChildTarget:
    """A workflow of the app, of any style: a child run whose id is made from the parent's and the key."""

    bodies: tuple[Callable[..., Any], ...] = ()

    def __init__(self, spec: WorkflowSpec) -> None:
        self._spec = replace(spec, result=Plain(spec.result))
        self._place = Place(spec.function.__code__, 0)
        self.definition: bytes = spec.definition

    def call(
        self,
        program: ScriptProgram,
        key: str,
        given: dict[str, Any],
        variables: dict[str, Any],
        retry: Retry | None,
        timeout: timedelta | None,
    ) -> ChildCall:
        """The child. The arguments of a flow are its input."""
        spec = self._spec
        taken = program.take_key(key)
        if spec.style == "flow":
            given = {"input": given, "vars": variables}
        else:
            _only_for_flows(spec, variables)
        command = StartChild(
            key=taken,
            run=child_id(program.beginning.identity, taken),
            workflow=spec.name,
            version=spec.version,
            args=encoded_arguments(spec.arguments, given),
            deadline=spec.deadline,
            code=spec.code,
            style=spec.style,
            definition=spec.definition,
        )
        return ChildCall(program, self._place, spec, command, CHILD_TIMEOUT if timeout is None else timeout)


def _only_for_flows(spec: StepSpec | WorkflowSpec, variables: dict[str, Any]) -> None:
    if variables:
        raise InvalidArguments(f"vars: {spec.name} is not a flow: only a flow has variables")


Target: TypeAlias = StepTarget | ChildTarget


def encoded_arguments(arguments: Arguments, given: dict[str, Any], recorded: bytes | None = None) -> bytes:
    """A call's arguments as they are recorded: decoded by annotation, with defaults. Raises `InvalidArguments`, which
    names what does not match."""
    try:
        args, kwargs = arguments.decode(encode_plain(given, "with"))
    except NotDecodable as error:
        raise InvalidArguments(f"with: {error}") from None
    return arguments.encode(args, kwargs, recorded)
