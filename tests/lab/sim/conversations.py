"""S18 of arguments in pieces: what each call was given, put together from its pieces, is what the workflow passed.

A conversation grows with every call, and what is in it follows from its label: so a row tells by itself what its call
must have been given, whoever wrote it and however much of it was stored before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from hashlib import sha256

import msgspec

from holdfast.core import events as e
from holdfast.core.turn import Row, decode_row, is_compacted
from holdfast.errors import BlobNotFound
from holdfast.ports.store import Store

CUT = 128
"""Bytes of a first piece, instead of 16 KiB: the lists of a simulation are small."""


def line(label: str, turn: int, size: int) -> str:
    """What is said in one turn. A long one has pieces that are alike, and none like those of the next turn."""
    return f"{label}/{turn} ".ljust(size, "abcdefghij"[turn % 10])


def lines(label: str, turns: int, size: int) -> list[str]:
    """What was said up to a turn."""
    return [line(label, turn, size) for turn in range(1, turns + 1)]


async def wrong_calls(store: Store, row: Row) -> list[str]:
    """What is wrong with the calls in pieces of a row that is stored."""
    return [f"row {row.ordinal}, step {call.key}: {why}" for call in calls(row) if (why := await _wrong(store, call))]


def stored_before(row: Row, brought: Collection[str]) -> bool:
    """Whether the row refers to pieces that it did not bring."""
    return any(not set(call.pieces) <= set(brought) for call in calls(row))


def calls(row: Row) -> Iterator[e.StepScheduled]:
    """The calls in pieces of a row."""
    if b'"pieces"' in row.body and not is_compacted(row):
        yield from (event for event in decode_row(row).events if isinstance(event, e.StepScheduled) and event.pieces)


async def _wrong(store: Store, call: e.StepScheduled) -> str:
    try:
        found = await store.get_blobs(call.pieces)
    except BlobNotFound as error:
        return f"a piece is gone: {error}"
    if len(found) < len(set(call.pieces)):
        return f"{len(set(call.pieces)) - len(found)} of its pieces are gone"
    whole = b"".join(found[name] for name in call.pieces)
    if sha256(whole).hexdigest() != call.hashed:
        return "its pieces together have another hash than its arguments had"
    given = msgspec.json.decode(whole)
    if given["said"] != lines(given["label"], given["turn"], given["size"]):
        return f"its pieces together are not what the workflow passed, but {whole[:200]!r}"
    return ""
