"""Values and their annotations, put together piece by piece: each comes back equal from its bytes, or is refused."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import uuid
from contextlib import suppress
from typing import Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, rule

from holdfast.core.payload import MAX_DEPTH, Shape, canonical
from holdfast.errors import NotDecodable, NotEncodable


class Typed(NamedTuple):
    """A value and what it is annotated with; how deep it is; whether something in it cannot be stored."""

    annotation: Any
    value: Any
    depth: int = 1
    is_bad: bool = False


def plain(annotation: Any, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Typed]:
    return values.map(lambda value: Typed(annotation, value))


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
scalars = st.one_of(
    plain(int, st.integers()),
    plain(float, st.floats(allow_nan=False, allow_infinity=False)),
    plain(str, texts),
    plain(bool, st.booleans()),
    plain(bytes, st.binary(max_size=12)),
    plain(decimal.Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    plain(dt.timedelta, st.timedeltas()),
    plain(dt.datetime, st.datetimes(timezones=st.just(dt.UTC))),
    plain(dt.date, st.dates()),
    plain(uuid.UUID, st.uuids()),
)
broken = st.sampled_from(
    [Typed(float, value, 1, True) for value in (math.nan, math.inf, -math.inf)] + [Typed(str, "\ud800", 1, True)]
)


class Values(RuleBasedStateMachine):
    """The codec."""

    made = Bundle("made")

    def check(self, typed: Typed) -> Typed:
        """What the codec promises of every value."""
        shape: Shape[Any] = Shape(typed.annotation, what="value")
        if typed.is_bad or typed.depth > MAX_DEPTH:
            try:
                shape.encode(typed.value)
            except NotEncodable:
                return typed
            raise AssertionError(f"stored, and cannot be: {typed}")
        data, copy = shape.round_trip(typed.value)
        assert copy == typed.value
        assert shape.decode(data) == typed.value
        assert shape.encode(copy) == data, "the same value, other bytes"
        assert canonical(canonical(data)) == canonical(data)
        return typed

    @rule(target=made, typed=scalars)
    def scalar(self, typed: Typed) -> Typed:
        return self.check(typed)

    @rule(target=made, typed=broken)
    def what_cannot_be_stored(self, typed: Typed) -> Typed:
        return self.check(typed)

    @rule(target=made, inner=made, count=st.integers(0, 3))
    def in_a_list(self, inner: Typed, count: int) -> Typed:
        is_bad = inner.is_bad and count > 0
        return self.check(Typed(list[inner.annotation], [inner.value] * count, inner.depth + 1, is_bad))  # type: ignore[name-defined]

    @rule(target=made, inner=made, key=texts)
    def in_a_dictionary(self, inner: Typed, key: str) -> Typed:
        return self.check(Typed(dict[str, inner.annotation], {key: inner.value}, inner.depth + 1, inner.is_bad))  # type: ignore[name-defined]

    @rule(target=made, first=made, second=made)
    def in_a_pair(self, first: Typed, second: Typed) -> Typed:
        annotation = tuple[first.annotation, second.annotation]  # type: ignore[name-defined]
        depth = max(first.depth, second.depth) + 1
        return self.check(Typed(annotation, (first.value, second.value), depth, first.is_bad or second.is_bad))

    @rule(typed=made, at=st.integers(0, 200), byte=st.integers(0, 255))
    def read_from_changed_bytes(self, typed: Typed, at: int, byte: int) -> None:
        """Another value, or refused: nothing else can happen."""
        if typed.is_bad or typed.depth > MAX_DEPTH:
            return
        shape: Shape[Any] = Shape(typed.annotation, what="value")
        data = bytearray(shape.encode(typed.value))
        data[at % len(data)] = byte
        with suppress(NotDecodable):
            shape.decode(bytes(data))
