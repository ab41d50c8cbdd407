"""The inputs of a batch, cut into chunks: pure, so that a client and a workflow make the same batch of them.

The caller stores each chunk under its hash; the plan names the blob that lists them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from holdfast.authoring.batch.batch_plan import (
    CHUNK_BYTES,
    CHUNK_ITEMS,
    CHUNKS,
    INDEX,
    MOST_AT_ONCE,
    Chunk,
    Order,
    Plan,
)
from holdfast.core.instants import LONGEST_KEPT
from holdfast.core.payload import hash_of
from holdfast.core.references import BlobRef, ReferringBytes, references_in
from holdfast.core.specs import WorkflowSpec
from holdfast.errors import HoldfastError, InvalidInput, InvalidItem


class Inputs:
    """Inputs that are being collected."""

    def __init__(self) -> None:
        self.names: list[str] = []
        """The hashes of the chunks, in order."""
        self.total: int = 0
        self._indexes: list[int] = []
        self._args: list[str] = []
        self._size = 0

    def add(self, index: int, args: str) -> bytes | None:
        """Adds an input. Returns the chunk that is full with it."""
        self._indexes.append(index)
        self._args.append(args)
        self._size += len(args)
        self.total += 1
        return self.rest() if len(self._args) == CHUNK_ITEMS or self._size >= CHUNK_BYTES else None

    def rest(self) -> bytes | None:
        """The last chunk, if there is one."""
        if not self._args:
            return None
        chunk = CHUNKS.encode(Chunk(self._indexes, self._args))
        refs = references_in(chunk)
        self._indexes, self._args, self._size = [], [], 0
        self.names.append(hash_of(chunk))
        return ReferringBytes(chunk, refs) if refs else chunk

    def index(self) -> ReferringBytes:
        """The blob that lists the chunks, and keeps them."""
        return ReferringBytes(INDEX.encode(self.names), self.names)

    def plan(self, like: Plan, retries: str = "") -> Plan:
        """The plan of everything that was added."""
        data = self.index()
        index = hash_of(data)
        held = [BlobRef(index, len(data), "json")]
        if like.style == "flow":  # the plan names the definition that its items execute
            held.append(BlobRef(like.code, 0, "json"))
        return replace(like, total=self.total, chunks=len(self.names), index=index, retries=retries, held=tuple(held))


def empty_plan(spec: WorkflowSpec, concurrency: int, order: Order) -> Plan:
    """The plan of a batch of that workflow, without inputs. Raises `InvalidInput` for options that no batch has."""
    return Plan(
        spec.name,
        spec.version,
        total=0,
        chunks=0,
        index="",
        concurrency=checked_concurrency(concurrency),
        code=spec.code,
        style=spec.style,
        deadline=min(spec.deadline, LONGEST_KEPT).total_seconds() if spec.deadline is not None else None,
        order=_order(order),
    )


def encoded_input(spec: WorkflowSpec, index: int, encode: Callable[[], tuple[WorkflowSpec, bytes]]) -> str:
    """The arguments of one item, from what encodes them and says whose they are. Raises `InvalidItem`."""
    try:
        given, args = encode()
    except (HoldfastError, TypeError) as error:
        path: Any = getattr(error, "path", "")
        text = f"input {index}: {str(error).removesuffix('.')}. Nothing was started."
        raise InvalidItem(text, index=index, path=path) from error
    if (given.name, given.version) != (spec.name, spec.version):
        text = f"input {index} is a call of {given.label}, not of {spec.label}. Nothing was started."
        raise InvalidItem(text, index=index)
    return args.decode()


def checked_concurrency(value: int) -> int:
    """That number of items at a time, if a batch can have it. Raises `InvalidInput`."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_AT_ONCE:
        raise InvalidInput(f"concurrency={value!r}: give a number of items from 1 to {MOST_AT_ONCE:,}")
    return value


def _order(value: Order) -> Order:
    if value not in {"depth", "breadth"}:
        raise InvalidInput(f"order={value!r}: use 'depth' or 'breadth'")
    return value
