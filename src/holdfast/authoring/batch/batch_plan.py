"""A batch as data: its plan, its inputs in chunks, its progress.

Inputs are written in chunks before the batch exists, each a blob; the plan names the blob that lists them. So no
process ever holds all inputs, and the same inputs of the same workflow are the same blobs. An item is a child run, and
its id follows from the batch and its index.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from holdfast.core.ids import child_id
from holdfast.core.payload import Shape
from holdfast.core.references import BlobRef
from holdfast.core.rounds import BATCH

NAME, VERSION = BATCH, "1"
"""The workflow of every batch, and the version of its conductor."""

CHUNK_ITEMS = 500
"""Items of one chunk, and of one pass of a batch's run: it restarts with each chunk, so its fold stays small."""

CHUNK_BYTES = 512 * 1024
"""Size in bytes at which a chunk of large inputs ends early."""

MOST_AT_ONCE = 1000
"""Maximum concurrency: items that are open when a chunk ends are asked for again with the next."""

MAX_ID = 200
"""Maximum bytes of a batch's id: the ids of its items are longer."""


Order: TypeAlias = Literal["depth", "breadth"]
"""Depth-first finishes one item after the other; breadth-first runs the first step of every item of a chunk before any
second step."""


class Plan(msgspec.Struct, frozen=True):
    """What a batch does, fixed when it is started."""

    workflow: str
    version: str
    total: int
    chunks: int
    index: str  # the blob that lists the chunks
    concurrency: int
    code: str = ""
    style: str = ""
    deadline: float | None = None  # of an item, in seconds
    retries: str = ""  # the batch whose items these were
    order: Order = "depth"
    held: tuple[BlobRef, ...] = ()  # what it names, as references: the index, and the flow that its items execute


class Chunk(msgspec.Struct, frozen=True):
    """Some inputs: the index of each, and its arguments as the JSON text stored with its run."""

    indexes: list[int]
    args: list[str]


class Counts(msgspec.Struct, frozen=True):
    """The number of items, and of those that have started or ended. The rest has not been started."""

    total: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    running: int = 0

    @property
    def done(self) -> int:
        """Items that have ended, with any outcome."""
        return self.completed + self.failed + self.cancelled

    @property
    def pending(self) -> int:
        """Items that have not been started."""
        return self.total - self.done - self.running


class Standing(msgspec.Struct, frozen=True):
    """The progress of a batch when one of its passes begins: the next chunk, the ended items, and the open ones."""

    chunk: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    open: list[int] = []
    first_failure: str = ""


CHUNKS: Shape[Chunk] = Shape(Chunk, what="a chunk of a batch's inputs")
INDEX: Shape[list[str]] = Shape(list[str], what="the list of a batch's chunks")
PLANS: Shape[Plan] = Shape(Plan, what="the plan of a batch")
COUNTS: Shape[Counts] = Shape(Counts, what="the counts of a batch")


def item_id(batch: str, index: int) -> str:
    """The id of an item's run."""
    return child_id(batch, str(index))


def index_of(batch: str, run: str) -> int | None:
    """The index of an item's run; None for other runs."""
    prefix, slash, number = run.rpartition("/")
    return int(number) if slash and prefix == batch and number.isdecimal() else None
