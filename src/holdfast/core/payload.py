"""Payloads: the arguments, results and messages of runs as JSON, read back by annotation.

::

    Shape       one annotation          value  ⇄ JSON
    Arguments   a function's signature  call   ⇄ JSON object, by parameter name, defaults applied

Both return the decoded copy with the bytes: a live run must see what a replay would see. Annotations are read at first
use, so that they may name what is defined later; `check` reads them at once. Nothing here knows where bytes are kept:
the caller stores payloads above `MAX_INLINE` as blobs under `hash_of`.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NoReturn, TypeVar, cast

import msgspec

from holdfast.core.annotations import Unsupported, hints_of
from holdfast.core.codec import MAX_PAYLOAD, Codec, compile_codec, is_too_deep
from holdfast.core.diagnose import MAX_DEPTH
from holdfast.core.schemas import JsonSchema, schema_of
from holdfast.errors import DefinitionError, InvalidArguments, NotDecodable

__all__ = [
    "MAX_DEPTH",
    "MAX_INLINE",
    "MAX_PAYLOAD",
    "Arguments",
    "Shape",
    "canonical",
    "hash_of",
    "result_shape",
]

MAX_INLINE = 128 * 1024

T = TypeVar("T")

_CONSTANTS = (type(None), bool, int, float, str, bytes)
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

_decode_any = msgspec.json.Decoder().decode
_encode_sorted = msgspec.json.Encoder(order="deterministic").encode
_astuple = msgspec.structs.astuple
_field = cast(Any, msgspec.field)  # its result stands for a default of any type
_generic = cast(Any, types.GenericAlias)  # list[annotation], for checkers that read it as a type


class Shape(Generic[T]):
    """One annotation, compiled: encodes and decodes values of one type. `what` names it in messages."""

    __slots__ = ("_codec", "_read", "what")

    def __init__(self, annotation: Any, *, what: str) -> None:
        self.what: str = what
        self._read: Callable[[], Any] = lambda: annotation
        self._codec: Codec | None = None

    @staticmethod
    def later(read: Callable[[], Any], *, what: str) -> Shape[Any]:
        """The shape of an annotation that is read when it is first needed."""
        shape = Shape[Any](None, what=what)
        shape._read = read
        return shape

    @property
    def annotation(self) -> Any:
        try:
            return self._read()
        except Unsupported as error:
            raise DefinitionError(f"{self.what}: {error}") from None

    def check(self) -> Codec:
        """Compiles the annotation now. Raises `DefinitionError` if it cannot be stored."""
        annotation = self.annotation
        try:
            self._codec = compile_codec(annotation)
        except Unsupported as error:
            raise DefinitionError(f"{self.what}: {error}") from None
        return self._codec

    def schema(self) -> JsonSchema:
        """The JSON Schema of what is stored; `{}`, which allows everything, without an annotation."""
        self.check()
        return schema_of(self.annotation)

    def encode(self, value: T, path: str = "") -> bytes:
        """The JSON of `value`, proven to decode to an equal value. Raises `NotEncodable`, which names the place under
        `path`."""
        return (self._codec or self.check()).round_trip(value, path, self.what)[0]

    def decode(self, data: bytes | msgspec.Raw) -> T:
        """The value of `data`. Raises `NotDecodable`, which names the place."""
        back: T = (self._codec or self.check()).decode(data, self.what)
        return back

    def round_trip(self, value: T, path: str = "") -> tuple[bytes, T]:
        """The JSON of `value` and the equal, independent copy that it decodes to."""
        return (self._codec or self.check()).round_trip(value, path, self.what)


class Arguments:
    """A signature, compiled. Calls are stored as a JSON object from parameter name to value, defaults applied.

    Behind it is a Struct with a field for each parameter: making one binds a call, encoding one writes the object.
    """

    __slots__ = (
        "_by_keyword",
        "_codec",
        "_function",
        "_is_simple",
        "_make",
        "_positional",
        "names",
        "signature",
        "what",
    )

    def __init__(self, function: Callable[..., Any], *, what: str, skip_first: bool = False) -> None:
        self.what: str = what
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError) as error:
            raise DefinitionError(f"{what}: its parameters cannot be read: {error}") from None
        parameters = list(signature.parameters.values())[1 if skip_first else 0 :]
        self.signature: inspect.Signature = signature.replace(parameters=parameters)
        self.names: tuple[str, ...] = tuple(parameter.name for parameter in parameters)
        self._function = function
        self._positional = sum(parameter.kind in _POSITIONAL for parameter in parameters)
        kinds = {parameter.kind for parameter in parameters}
        self._is_simple = kinds <= {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
        self._by_keyword = self.names[self._positional :]
        self._make: Callable[..., msgspec.Struct] | None = None
        self._codec: Codec | None = None

    def check(self) -> Codec:
        """Reads and compiles the annotations now. Raises `DefinitionError` if one cannot be stored."""
        try:
            hints = _hints(self._function)
        except Unsupported as error:
            raise DefinitionError(f"{self.what}: {error}") from None
        fields: dict[bool, list[tuple[str, Any, Any]]] = {False: [], True: []}
        for parameter in self.signature.parameters.values():
            annotation = _field_annotation(parameter, hints.get(parameter.name, Any))
            try:
                compile_codec(annotation)
            except Unsupported as error:
                raise DefinitionError(f"{self.what}: argument {parameter.name}: {error}") from None
            by_keyword = not self._is_simple or parameter.kind is inspect.Parameter.KEYWORD_ONLY
            fields[by_keyword].append((parameter.name, annotation, _field_default(parameter)))
        made = msgspec.defstruct("Arguments", fields[False], forbid_unknown_fields=True)
        if fields[True]:
            made = msgspec.defstruct("Arguments", fields[True], bases=(made,), kw_only=True, forbid_unknown_fields=True)
        self._make = made
        self._codec = compile_codec(made)
        return self._codec

    def annotation(self, name: str) -> Any:
        """What a parameter is declared as; `Any` if it is not."""
        try:
            return _hints(self._function).get(name, Any)
        except Unsupported:
            return Any

    def schema(self) -> JsonSchema:
        """The JSON Schema of a call as it is stored: an object by parameter name."""
        if self._make is None:
            self.check()
        return schema_of(self._make, is_call=True)

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The call's arguments by parameter name, with defaults. Raises `InvalidArguments` if they do not match."""
        return msgspec.structs.asdict(self._bound(args, kwargs))

    def encode(self, args: Sequence[Any], kwargs: Mapping[str, Any], proven: bytes | None = None) -> bytes:
        """The JSON object of a call, proven to decode to an equal one. If it equals `proven`, the proof was done
        before."""
        codec = self._codec or self.check()
        if proven is not None and self._is_simple and self._make is not None:  # a replay: as `_bound` and `gives` do it
            try:
                if codec.to_bytes(self._make(*args, **kwargs)) == proven:
                    return proven
            except Exception:  # noqa: BLE001, S110 said below in the author's terms
                pass
        make = self._make if self._is_simple else None  # as `_bound` does it, without the call
        try:
            bound = self._bound(args, kwargs) if make is None else make(*args, **kwargs)
        except TypeError:
            bound = self._bound(args, kwargs)  # says why
        return codec.round_trip(bound, "", self.what, 1)[0]

    def decode(self, data: bytes | msgspec.Raw) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The call in `data`. A missing parameter gets its default; unknown names are refused."""
        bound = (self._codec or self.check()).decode(data, self.what, 1)
        if self._positional == len(self.names):  # most: by position alone
            return _astuple(bound), {}
        return self._unbound(bound)

    def round_trip(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[bytes, tuple[Any, ...], dict[str, Any]]:
        """The JSON object of a call, and the equal, independent call that it decodes to."""
        bound = self._bound(args, kwargs)
        data, back = (self._codec or self.check()).round_trip(bound, "", self.what, 1)
        return (data, *self._unbound(back))

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> msgspec.Struct:
        make = self._make
        if make is None:
            self.check()
            return self._bound(args, kwargs)
        if not self._is_simple:
            return make(**self._by_name(args, kwargs))
        try:
            return make(*args, **kwargs)
        except TypeError:
            self._by_name(args, kwargs)  # says it in Python's words
            raise

    def _by_name(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            self._refuse(str(error))
        bound.apply_defaults()
        values = bound.arguments
        for parameter in self.signature.parameters.values():
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                values[parameter.name] = list(values[parameter.name])
        return values

    def _refuse(self, problem: str) -> NoReturn:
        raise InvalidArguments(f"{self.what}: {problem}. Its parameters are ({', '.join(self.names)}).")

    def _unbound(self, bound: msgspec.Struct) -> tuple[tuple[Any, ...], dict[str, Any]]:
        values = _astuple(bound)
        if self._positional == len(values):
            return values, {}
        if self._is_simple:
            split = self._positional
            return values[:split], dict(zip(self._by_keyword, values[split:]))  # noqa: B905 as many by construction
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for parameter, value in zip(self.signature.parameters.values(), values, strict=True):
            if parameter.kind in _POSITIONAL:
                args.append(value)
            elif parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                args += value
            elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
                kwargs |= value
            else:
                kwargs[parameter.name] = value
        return tuple(args), kwargs


def result_shape(function: Callable[..., Any], what: str) -> Shape[Any]:
    """The shape of what a function returns (an `async def`: of what awaiting it gives); no annotation: plain JSON."""
    return Shape.later(lambda: _hints(function).get("return", Any), what=what)


def hash_of(data: bytes) -> str:
    """The name of these bytes: their SHA-256 in hex."""
    return hashlib.sha256(data).hexdigest()


def input_hash(args: bytes) -> str:
    """Distinguishes the inputs of two runs. It is in every run's row, so it has 128 bits: two inputs never share it by
    chance, and a user who constructs a collision only harms themselves."""
    return hash_of(canonical(args))[:32]


def is_same_input(stored: str, digest: str) -> bool:
    """Whether a row's hash is that of this input. A child has no hash; older rows have the full one."""
    return not stored or stored[: len(digest)] == digest


def canonical(data: bytes) -> bytes:
    """The same JSON with the keys of all objects sorted: equal values have equal bytes. For hashes only."""
    try:
        if len(data) > 2 * MAX_DEPTH and is_too_deep(data, MAX_DEPTH + 1):  # nothing shorter can be
            raise NotDecodable(f"the data is nested more than {MAX_DEPTH} levels deep.")
        return _encode_sorted(_decode_any(data))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotDecodable(f"the data is not JSON: {error}") from None


def _hints(function: Any) -> dict[str, Any]:
    while isinstance(function, functools.partial):
        function = cast(Any, function).func
    if not inspect.isroutine(function) and not isinstance(function, type):
        function = type(function).__call__
    return hints_of(function, "its")


def _field_annotation(parameter: inspect.Parameter, annotation: Any) -> Any:
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        return _generic(list, (annotation,))
    if parameter.kind is inspect.Parameter.VAR_KEYWORD:
        unpacked = typing.get_origin(annotation) is typing.Unpack
        return typing.get_args(annotation)[0] if unpacked else _generic(dict, (str, annotation))
    return annotation


def _field_default(parameter: inspect.Parameter) -> Any:
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        return _field(default_factory=list)
    if parameter.kind is inspect.Parameter.VAR_KEYWORD:
        return _field(default_factory=dict)
    default = parameter.default
    if default is inspect.Parameter.empty:
        return _field()
    if isinstance(default, _CONSTANTS):
        return _field(default=default)
    return _field(default_factory=lambda: default)
