"""What the tests of the core share: journals written by hand, and events of every kind drawn by hypothesis."""

from __future__ import annotations

import types
import typing
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec
from hypothesis import strategies as st

from holdfast.core import events as e
from holdfast.core.failure import NO_DATA, Failure
from holdfast.core.fold import fold
from holdfast.core.run import Run
from holdfast.core.turn import FORMAT, Row, Turn, checksum, encode_events, genesis, micros

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
BOOM = Failure("shop.Declined", "no money")
LATER = Failure("TimeoutError", "no answer")
EVENTS: tuple[type[e.Event], ...] = (*e.INPUTS, *e.OUTPUTS)


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def at(count: float) -> datetime:
    """That many seconds after noon."""
    return NOON + seconds(count)


def raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode())


def started(**more: Any) -> e.Started:
    return e.Started(workflow="order", **more)


def step(key: str, **more: Any) -> e.StepScheduled:
    return e.StepScheduled(key=key, **more)


def done(key: str, value: str = "null") -> e.StepCompleted:
    return e.StepCompleted(key=key, value=raw(value))


def attempt_failed(key: str, attempt: int = 1, retry: float = 30, of: int | None = 5) -> e.AttemptFailed:
    return e.AttemptFailed(key=key, attempt=attempt, failure=BOOM, retry_at=at(retry), of=of)


def signal(message: str, name: str = "go", value: str = "1") -> e.SignalReceived:
    return e.SignalReceived(message=message, name=name, value=raw(value))


class Journal:
    """A journal being written: a row for each call of `turn`, a second after the one before."""

    def __init__(self, *first: e.AnyEvent, run: str = "r") -> None:
        self.id = run
        self.turns: list[Turn] = []
        self.rows: list[Row] = []
        self.epoch = 0
        self.turn(*(first or (started(),)))

    def turn(self, *events: e.AnyEvent, when: float | None = None) -> Journal:
        """Appends a row; one that begins with a claim is of a new epoch."""
        if events and isinstance(events[0], e.Claimed):
            self.epoch += 1
        ordinal = len(self.turns) + 1
        moment = at(ordinal - 1 if when is None else when)
        body = encode_events(events)
        previous = self.rows[-1].checksum if self.rows else genesis(self.id)
        digest = checksum(previous, ordinal, self.epoch, micros(moment), body)
        self.turns.append(Turn(self.id, ordinal, self.epoch, moment, events, digest))
        self.rows.append(Row(self.id, ordinal, self.epoch, micros(moment), FORMAT, digest, body))
        return self

    def claim(self, *events: e.AnyEvent, worker: str = "w1", **more: Any) -> Journal:
        return self.turn(e.Claimed(worker=worker, **more), *events)

    @property
    def run(self) -> Run:
        return fold(self.id, self.turns)


# -- events drawn by chance --------------------------------------------------------------------------------------------

names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)
instants = st.datetimes(datetime(1900, 1, 1), datetime(9999, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 made aware here
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)
raws = json_values.map(lambda value: msgspec.Raw(msgspec.json.encode(value)))
failures = st.builds(
    Failure, names, names, names | st.just(""), st.booleans(), st.just(NO_DATA) | raws.filter(lambda x: bytes(x) != b"")
)


def _of(hint: Any) -> st.SearchStrategy[Any]:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return st.sampled_from(args)
    if origin in {types.UnionType, typing.Union}:
        return st.one_of(*[_of(arg) for arg in args])
    if origin is tuple:
        return st.lists(_of(args[0]), max_size=3).map(tuple)
    if isinstance(hint, type) and issubclass(hint, e.Event | e.Segment):
        return events_of(hint)
    known: dict[Any, st.SearchStrategy[Any]] = {
        str: names,
        int: st.integers(-(2**63), 2**63 - 1),
        bool: st.booleans(),
        datetime: instants,
        timedelta: st.timedeltas(timedelta(0), timedelta(days=36_500)),
        msgspec.Raw: raws,
        Failure: failures,
        e.Span: st.builds(e.Span, names, *[st.integers(0, 2**63 - 1)] * 3),
        type(None): st.none(),
        dict[str, str]: st.dictionaries(names, names, max_size=2),
        dict[str, str | None]: st.dictionaries(names, st.none() | names, max_size=2),
    }
    return known[hint]


def events_of(kind: type[e.Event | e.Segment]) -> st.SearchStrategy[Any]:
    """Events of one kind, with every field given or left out."""
    hints = typing.get_type_hints(kind)
    required = {f.name: _of(hints[f.name]) for f in msgspec.structs.fields(kind) if f.required}
    optional = {f.name: _of(hints[f.name]) for f in msgspec.structs.fields(kind) if not f.required}
    return st.fixed_dictionaries(required, optional=optional).map(lambda given: kind(**given))


any_event = st.sampled_from(EVENTS).flatmap(events_of)


def plain(event: Any) -> Any:
    """An event as something that compares: raw JSON by its bytes."""
    if isinstance(event, msgspec.Raw):
        return bytes(event)
    if isinstance(event, msgspec.Struct):
        return type(event).__name__, {f: plain(getattr(event, f)) for f in event.__struct_fields__}
    if isinstance(event, list | tuple):
        return [plain(x) for x in typing.cast("list[Any]", event)]
    return event
