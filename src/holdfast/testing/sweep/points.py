"""Where a run can be disturbed, and the name of each place.

A point is a kind of disturbance and a place: the body of a step (`charge`, its second attempt `charge@2`) or a row of
the journal (`row 3`), of the run that is swept or of a child (`charge of sweep/ship`). Its text is what reports print
and what `only=` takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from holdfast.errors import InvalidInput

Kind: TypeAlias = Literal[
    "before",
    "after",
    "lease lost in",
    "two workers in",
    "late",
    "before commit of",
    "after commit of",
    "answer lost of",
    "cancel after",
    "before parts of",
    "after parts of",
]
"""Of a body: a crash before it begins, a crash after it returned and before that is durable, its lease lost while it
runs, the whole rest of the run done by a second worker while it runs, its outcome last of those that come at the same
moment. Of a row: a crash before it is written, a crash after, written but not answered, a cancel sent after it.
Of parts that a body sends to a stream: a crash before they are written, a crash after."""

MEANING: dict[Kind, str] = {
    "before": "the worker was killed before the body began",
    "after": "the worker was killed after the body had returned, before its outcome was durable",
    "lease lost in": "the lease was lost while the body ran",
    "two workers in": "a second worker took the run over while the body ran, and the first one continued",
    "late": "its outcome came after those of the other steps of the same moment",
    "before commit of": "the worker was killed before the row was written",
    "after commit of": "the worker was killed after the row was written",
    "answer lost of": "the row was written, and the answer lost",
    "cancel after": "the run was cancelled after the row was written",
    "before parts of": "the worker was killed before these parts of a stream were written",
    "after parts of": "the worker was killed after these parts of a stream were written",
}

CRASHES: tuple[Kind, ...] = (
    "before",
    "after",
    "before commit of",
    "after commit of",
    "before parts of",
    "after parts of",
)
"""Kinds that end the process: everything it had in memory is gone."""

JOIN = " + "


@dataclass(frozen=True, slots=True)
class Point:
    """One disturbance. `step` is the step's name, empty for a row."""

    kind: Kind
    place: str
    step: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.place}"

    def is_same(self, other: Point) -> bool:
        """Whether it is the same disturbance at the same place."""
        return (self.kind, self.place) == (other.kind, other.place)


def body_place(run: str, root: str, key: str, attempt: int) -> str:
    """The name of the body of an attempt."""
    return f"{key}{f'@{attempt}' if attempt > 1 else ''}{_of(run, root)}"


def row_place(run: str, root: str, ordinal: int) -> str:
    return f"row {ordinal}{_of(run, root)}"


def _of(run: str, root: str) -> str:
    return "" if run == root else f" of {run}"


def parse(text: str) -> tuple[Point, ...]:
    """The points that a text names: one, or several in sequence, joined by ` + `."""
    return tuple(_parse(part.strip()) for part in text.split(JOIN))


def _parse(text: str) -> Point:
    kinds: tuple[Kind, ...] = get_args(Kind)
    for kind in sorted(kinds, key=len, reverse=True):
        if text.startswith(f"{kind} "):
            return Point(kind, text.removeprefix(f"{kind} "))
    raise InvalidInput(
        f"only={text!r} is not a point of a sweep; points are called such as 'after charge' or 'after row 3'"
    )


def said(points: tuple[Point, ...]) -> str:
    """The text of points in sequence."""
    return JOIN.join(str(point) for point in points)
