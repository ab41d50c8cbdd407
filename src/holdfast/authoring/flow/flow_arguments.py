"""The arguments of a flow, its input and its variables, checked before anything is written."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.authoring.flow.schema_checks import check_input
from holdfast.core.codec import Codec, compile_codec
from holdfast.core.guards import is_dict
from holdfast.core.payload import Arguments, Shape
from holdfast.core.schemas import JsonSchema
from holdfast.errors import InvalidArguments, NotDecodable

if TYPE_CHECKING:
    from holdfast.authoring.flow.flow_definition import Definition, Variable

_anything: Shape[Any] = Shape(Any, what="variables")


class Start(msgspec.Struct, frozen=True, omit_defaults=True):
    """The arguments as the run's first event stores them: every variable with its value, and the names of secret
    ones."""

    input: msgspec.Raw
    vars: dict[str, Any] = {}
    secrets: tuple[str, ...] = ()


class FlowArguments(Arguments):
    """`(input, vars=None)`: the input must match the flow's schema, the variables its declarations."""

    __slots__ = ("_definition", "_input")

    def __init__(self, definition: Definition, input: Shape[Any]) -> None:
        self.what: str = f"flow {definition.name}"
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self.names: tuple[str, ...] = ("input", "vars")
        self.signature: inspect.Signature = inspect.Signature(
            [inspect.Parameter("input", kind, default=None), inspect.Parameter("vars", kind, default=None)]
        )
        self._definition = definition
        self._input = input

    def check(self) -> Codec:
        """Checks the type of the input."""
        self._input.check()
        return compile_codec(Any)

    def schema(self) -> JsonSchema:
        """The schema of what the run's first event stores: the input by the flow's schema, and a value for each
        variable."""
        declared = self._definition.variables
        variables: JsonSchema = {"type": "object", "properties": {each.name: _described(each) for each in declared}}
        if needed := self._definition.to_be_given:
            variables["required"] = list(needed)
        schema = self._definition.input_schema
        whole = schema_by_itself(schema, f"{self._definition.name}/input") if is_dict(schema) else self._input.schema()
        needs = ["input", "vars"] if needed else ["input"]
        return {"type": "object", "properties": {"input": whole, "vars": variables}, "required": needs}

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise InvalidArguments(f"{self.what}: {error}. Its parameters are ({', '.join(self.names)}).") from None
        bound.apply_defaults()
        return dict(bound.arguments)

    def encode(self, args: Sequence[Any], kwargs: Mapping[str, Any], proven: bytes | None = None) -> bytes:
        """Encodes to one JSON object. Raises `InvalidArguments` with the path of what does not match."""
        given = self.bind(args, kwargs)
        data = self._input.encode(given["input"], "input")
        check_input(self._definition, msgspec.json.decode(data))
        variables = self._variables(given["vars"])
        return msgspec.json.encode(Start(msgspec.Raw(data), variables, tuple(sorted(self._definition.secrets))))

    def decode(self, data: bytes | msgspec.Raw) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Input and variables. They were checked when they were recorded, and are not checked again."""
        try:
            start = msgspec.json.decode(data, type=Start)
        except msgspec.MsgspecError as error:
            raise NotDecodable(f"{self.what}: the stored arguments do not fit: {error}") from None
        return (self._input.decode(start.input), start.vars), {}

    def round_trip(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[bytes, tuple[Any, ...], dict[str, Any]]:
        """The JSON, and what it decodes to."""
        data = self.encode(args, kwargs)
        return (data, *self.decode(data))

    def _variables(self, given: Mapping[str, Any] | None) -> dict[str, Any]:
        values = dict(given or {})
        declared = {variable.name: variable for variable in self._definition.variables}
        for name in values:
            if name not in declared:
                known = ", ".join(declared) or "none"
                raise InvalidArguments(f"{self.what}: vars.{name} is not declared; its variables are: {known}")
        if missing := [name for name in self._definition.to_be_given if name not in values]:
            raise InvalidArguments(f"{self.what}: vars.{missing[0]} has no default and was not given: vars={{…}}")
        found = {
            name: values.get(name, one.default) for name, one in declared.items() if name in values or one.has_default
        }
        plain: dict[str, Any] = _anything.round_trip(found, "vars")[1]
        return plain


class FlowOutput(Shape[Any]):
    """The result of a flow, checked by its callers' type and its own schema."""

    __slots__ = ("_definition",)

    def __init__(self, definition: Definition, gives: Any) -> None:
        super().__init__(gives, what=f"flow {definition.name}: its output")
        self._definition = definition

    def schema(self) -> JsonSchema:
        """The flow's schema, if it has one."""
        schema = self._definition.output_schema
        return dict(schema) if is_dict(schema) else super().schema()


def schema_by_itself(schema: dict[str, Any], name: str) -> JsonSchema:
    """A schema that can be put inside another: if it refers to its own parts, it gets a name so that those references
    still work."""
    refers = b'"$ref"' in msgspec.json.encode(schema) and "$id" not in schema
    return {"$id": f"urn:holdfast:flow:{name}", **schema} if refers else dict(schema)


def _described(variable: Variable) -> JsonSchema:
    default = {"default": variable.default} if variable.has_default else {}
    about = {"description": variable.description} if variable.description else {}
    return {**default, **about, **({"writeOnly": True} if variable.secret else {})}


def secrets_in(data: bytes | msgspec.Raw) -> list[Any]:
    """The values of the secret variables in a run's start."""
    try:
        start = msgspec.json.decode(data, type=Start)
    except msgspec.MsgspecError:
        return []
    return [start.vars[name] for name in start.secrets if name in start.vars]
