"""Large arguments in pieces, so that a list that grows is stored once and not again with every call.

Two texts with the same beginning have the same first pieces, and a piece is a blob named by its hash: it is stored
once. The cuts follow from the text alone. Within each large value of the arguments, pieces grow with the distance from
its beginning, so that a text of any size has few of them and a small end.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

SMALLEST = 16 * 1024
"""Bytes of a first piece. Smaller arguments stay in the journal."""

SHARE = 16
"""A piece is at most this part of what is before it in its value."""

_values = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def cut(args: bytes) -> Iterator[bytes]:
    """The pieces of the arguments of a call, an object by parameter name. Together they are `args`."""
    begin = 0
    for start, end in _large_values(args):
        if start > begin:
            yield args[begin:start]
        begin = start
        while end - begin > (size := _size(begin - start)):
            yield args[begin : begin + size]
            begin += size
    if begin < len(args):
        yield args[begin:]


def _size(offset: int) -> int:
    """The size of the piece that begins there: a power of two."""
    share = offset // SHARE
    return max(SMALLEST, 1 << (share.bit_length() - 1)) if share else SMALLEST


def _large_values(args: bytes) -> Iterator[tuple[int, int]]:
    """Where the values begin and end that are cut by themselves."""
    offset = 1
    for name, value in _values(args).items():
        start = offset + len(msgspec.json.encode(name)) + 1
        offset = start + len(bytes(value))
        if offset - start > SMALLEST:
            yield start, offset
        offset += 1
