"""Values that handlers return or receive besides states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeGuard, TypeVar

from holdfast.core.durations import Duration, parse_duration

C = TypeVar("C")
C_co = TypeVar("C_co", covariant=True)
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class More(Generic[C_co]):
    """A stepped state has more to do: call it again with this cursor, which is durable by then."""

    cursor: C_co


def is_more(answer: object) -> TypeGuard[More[Any]]:
    """Whether a state has more to do."""
    return type(answer) is More


@dataclass(frozen=True, slots=True, init=False)
class Again:
    """A polled state is not ready: ask again after that long."""

    after: float

    def __init__(self, after: Duration) -> None:
        object.__setattr__(self, "after", parse_duration(after, what="Again()").total_seconds())


@dataclass(frozen=True, slots=True)
class ItemOutcome(Generic[R]):
    """The outcome of one item of a batch. `error` is empty if it succeeded."""

    index: int
    value: R | None = None
    error: str = ""

    @property
    def is_ok(self) -> bool:
        """Whether the item was processed."""
        return not self.error


@dataclass(frozen=True, slots=True)
class Window(Generic[T]):
    """Some items of a stream, handled together. After the last window the handler returns the next state."""

    items: list[T]
    is_last: bool = False
