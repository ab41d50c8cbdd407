"""Values in PostgreSQL's binary format, by the type that a statement casts them to.

psycopg chooses the type by the value and sends a small number as a smaller type, so a statement would have to be
prepared once for every size of its numbers.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, TypeAlias

import psycopg

Encoder: TypeAlias = Callable[[Any], bytes]

_CAST = re.compile(r"\$(\d+)::(\w+(?:\[\])?)")
_HEAD = struct.Struct("!iiiii")  # dimensions, whether there are nulls, type of the elements, how many, first index
_bigint, _integer, _length = struct.Struct("!q").pack, struct.Struct("!i").pack, struct.Struct("!i").pack
_NULL = _length(-1)


def _text(value: str) -> bytes:
    encoded = value.encode()
    if b"\0" in encoded:
        raise psycopg.DataError("a text with a NUL (0x00) in it")
    return encoded


def _boolean(value: bool) -> bytes:
    return b"\1" if value else b"\0"


_SCALARS: dict[str, tuple[int, Encoder]] = {
    "boolean": (16, _boolean),
    "bytea": (17, bytes),
    "bigint": (20, _bigint),
    "integer": (23, _integer),
    "text": (25, _text),
}


def _array_of(oid: int, encode: Encoder) -> Encoder:
    def array(values: Sequence[Any]) -> bytes:
        parts: list[bytes] = []
        has_nulls = 0
        for value in values:
            if value is None:
                has_nulls = 1
                parts.append(_NULL)
            else:
                encoded = encode(value)
                parts += (_length(len(encoded)), encoded)
        return _HEAD.pack(1, has_nulls, oid, len(values), 1) + b"".join(parts)

    return array


_ENCODERS: dict[str, Encoder] = {
    **{name: encode for name, (_, encode) in _SCALARS.items()},
    **{name + "[]": _array_of(oid, encode) for name, (oid, encode) in _SCALARS.items()},
}


class Statement:
    """One statement and how its values are sent: each in the type of its first cast. Its name in a session contains a
    hash of its text, so one name never stands for two texts."""

    __slots__ = ("_encoders", "formats", "name", "text")

    def __init__(self, verb: str, text: str, schema: str) -> None:
        numbered = "".join(f"${number}{piece}" if number else piece for number, piece in enumerate(text.split("%b")))
        casts = {int(number): name for number, name in reversed(_CAST.findall(numbered))}
        self._encoders = [_ENCODERS[casts[number]] for number in range(1, len(casts) + 1)]
        self.formats: list[int] = [1] * len(casts)
        self.text: bytes = numbered.replace("{s}", schema).encode()
        self.name: bytes = f"{verb}({sha256(self.text).hexdigest()[:16]})".encode()

    def encoded(self, values: Sequence[Any]) -> list[bytes | None]:
        """The values as they are sent. Raises `DataError` for a value that its type cannot hold."""
        try:
            return [
                None if value is None else encode(value) for encode, value in zip(self._encoders, values, strict=True)
            ]
        except struct.error as error:
            raise psycopg.DataError(f"a number out of range ({error})") from None
