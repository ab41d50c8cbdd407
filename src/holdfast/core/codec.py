"""JSON for one annotation: encodes, decodes, and proves that the bytes decode to an equal value.

msgspec does all the work where it can, otherwise a tree of nodes (`core.nodes`) does. All returned bytes have been
decoded again and compared with the original value, so stored data never changes its meaning. All errors name the place:
``order.items[3].price``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from holdfast.core.annotations import Unsupported, build, reachable
from holdfast.core.budget import MAX_PAYLOAD, TooLarge, bounded, check_room
from holdfast.core.compounds import Fields, Union
from holdfast.core.diagnose import MAX_DEPTH, Problem, find_difference, find_obstacle
from holdfast.core.models import decode_hook, encode_hook
from holdfast.core.nodes import Choice, Misfit, Node, Pairs, Scalar, split_reason
from holdfast.errors import NotDecodable, NotEncodable, PayloadTooLarge

__all__ = ["MAX_PAYLOAD", "Codec", "compile_codec", "encode_plain", "is_too_deep"]

_MOST_PARTS = 1000
"""The encoder of values without a budget, by annotation."""

_SMALL = 2 * MAX_DEPTH  # bytes: nothing shorter can be nested too deeply
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]"))
_SQUARE = bytes.maketrans(b"{}", b"[]")

_encoder = msgspec.json.Encoder(enc_hook=encode_hook)
_encode_bounded = bounded(_encoder)
_decode_any = msgspec.json.Decoder().decode


class Codec:
    """A compiled annotation. `outer` levels of nesting belong to the caller and do not count. `to_bytes` writes a value
    without the proof; it may raise any error of the author's hooks.
    """

    __slots__ = ("_decode", "_is_open", "to_bytes")

    def __init__(
        self, encode: Callable[[Any], bytes], decode: Callable[[bytes | msgspec.Raw], Any], *, is_open: bool
    ) -> None:
        self.to_bytes: Callable[[Any], bytes] = encode
        self._decode = decode
        self._is_open = is_open

    def round_trip(self, value: Any, path: str, what: str, outer: int = 0) -> tuple[bytes, Any]:
        """The bytes of `value` and the equal copy they decode to."""
        try:
            data = self.to_bytes(value)
            if len(data) > _SMALL:
                self._measure(data, value, path, what, MAX_DEPTH + outer)
            back = self._decode(data)
            if back == value:
                return data, back
        except (NotEncodable, PayloadTooLarge):
            raise
        except TooLarge:
            raise _too_large(what, path, None) from None
        except Exception as error:  # noqa: BLE001 msgspec, or user code in hooks, __post_init__ and __eq__
            raise _refused(value, error, path, what, MAX_DEPTH + outer) from None
        problem = find_obstacle(value, path, depth=MAX_DEPTH + outer)
        if problem is not None:
            raise _not_encodable(what, problem)
        problem = find_difference(value, back, path)
        if problem is None:  # a class without an __eq__ of its own: the same part by part
            return data, back
        raise _not_encodable(what, Problem(problem.path, f"does not come back equal: {problem.reason}"))

    def decode(self, data: bytes | msgspec.Raw, what: str, outer: int = 0) -> Any:
        """The value of stored `data`."""
        if self._is_open and len(data) > _SMALL and is_too_deep(bytes(data), MAX_DEPTH + outer):
            raise NotDecodable(f"{what}: the stored data is nested more than {MAX_DEPTH} levels deep.")
        try:
            return self._decode(data)
        except Misfit as misfit:
            reason, path = misfit.reason, misfit.path
        except msgspec.ValidationError as error:
            reason, path = split_reason(error)
        except RecursionError:
            reason, path = f"it is nested more than {MAX_DEPTH} levels deep", ""
        except Exception as error:  # noqa: BLE001 foreign bytes, or user code in __post_init__
            reason, path = f"{type(error).__name__}: {error}", ""
        path = path.removeprefix(".")
        place = f" at {path}" if path else ""
        raise NotDecodable(
            f"{what}: the stored data does not fit the annotation{place}: {reason}. Was the type changed since it was "
            "stored? Give new fields a default, and keep the old ones.",
            path=path,
        )

    def _measure(self, data: bytes, value: Any, path: str, what: str, depth: int) -> None:
        if len(data) > MAX_PAYLOAD:
            raise _too_large(what, path, len(data))
        if self._is_open and is_too_deep(data, depth):
            found = find_obstacle(value, path, depth=depth)
            raise _not_encodable(what, found or Problem(path, f"is nested more than {MAX_DEPTH} levels deep"))


def compile_codec(annotation: Any) -> Codec:
    """The codec of an annotation, cached. Raises `Unsupported` if there is none."""
    try:
        return _compiled(annotation)
    except TypeError:  # not hashable: Annotated with a list, say
        return _compile(annotation)


def encode_plain(value: Any, what: str) -> bytes:
    """The JSON of a value that is already plain. Raises `PayloadTooLarge` above the limit."""
    try:
        return _encode_bounded(value)
    except TooLarge:
        raise _too_large(what, "", None) from None


def is_too_deep(data: bytes, limit: int) -> bool:
    """Whether JSON is nested more than `limit` levels deep.

    Strings are removed first; then each pass removes the innermost pairs of brackets, which is one level.
    """
    if data.count(b"[") + data.count(b"{") <= limit:
        return False
    left = _STRING.sub(b"", data).translate(_SQUARE).translate(None, _NOT_BRACKETS)
    for _ in range(limit):
        left = left.replace(b"[]", b"")
        if not left:
            return False
    return True


def _compile(annotation: Any) -> Codec:
    root = build(annotation)
    is_open = any(node.is_open for node in reachable(root))
    is_small = _parts(root, ()) <= _MOST_PARTS
    if not root.is_direct:
        return Codec(_tree_encoder(root, is_small=is_small), _tree_decoder(root), is_open=is_open)
    try:
        decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(root.annotation, dec_hook=decode_hook)
    except TypeError as error:
        raise Unsupported(f"{error}") from None
    return Codec(_encoder.encode if is_small else _encode_bounded, decoder.decode, is_open=is_open)


_compiled = lru_cache(maxsize=4096)(_compile)


def _parts(node: Node, above: tuple[Node, ...]) -> float:
    """How many single values a value of this annotation can hold."""
    if isinstance(node, (Scalar, Choice)):
        return 1
    if not isinstance(node, (Fields, Pairs, Union)) or node in above or len(above) > MAX_DEPTH:
        return math.inf
    parts = 0.0
    for child in node.children:
        parts += _parts(child, (*above, node))
        if parts > _MOST_PARTS:
            return math.inf
    return parts


def _tree_encoder(root: Node, *, is_small: bool) -> Callable[[Any], bytes]:
    to_plain, encode = root.to_plain, _encoder.encode
    if is_small:
        return lambda value: encode(to_plain(value))

    def checked(value: Any) -> bytes:
        check_room(value)
        return _encode_bounded(to_plain(value))

    return checked


def _tree_decoder(root: Node) -> Callable[[bytes | msgspec.Raw], Any]:
    from_plain = root.from_plain
    return lambda data: from_plain(_decode_any(data), "")


def _too_large(what: str, path: str, size: int | None) -> PayloadTooLarge:
    taken = f"takes {size} bytes, more than the limit of {MAX_PAYLOAD}"
    if size is None:
        taken = f"takes more than {MAX_PAYLOAD} bytes, the limit"
    return PayloadTooLarge(
        f"{what}: {path or 'the value'} {taken} (max_payload). Store it elsewhere and pass a reference to it.",
        size=MAX_PAYLOAD + 1 if size is None else size,
        limit=MAX_PAYLOAD,
    )


def _refused(value: Any, error: Exception, path: str, what: str, depth: int) -> NotEncodable:
    """Why a value was refused, as precisely as possible."""
    found = find_obstacle(value, path, depth=depth)
    if found is not None:
        return _not_encodable(what, found)
    if isinstance(error, (Misfit, msgspec.ValidationError)):
        reason, place = (error.reason, error.path) if isinstance(error, Misfit) else split_reason(error)
        return _not_encodable(what, Problem((path + place).removeprefix("."), f"does not fit its annotation: {reason}"))
    return _not_encodable(what, Problem(path, f"cannot be stored: {type(error).__name__}: {error}"))


def _not_encodable(what: str, problem: Problem) -> NotEncodable:
    place = problem.path or "the value"
    if len(place) > 200:
        place = f"{place[:100]} … {place[-60:]}"
    return NotEncodable(f"{what}: {place} {problem.reason}.", path=problem.path)
