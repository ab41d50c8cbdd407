"""Starts that join a run which has not begun: `debounce=`, where the last input wins, and `collect`, where many calls
become one run. The first one makes the run; the store gives it what the others bring (`ports.runs.Joining`)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec

from holdfast.authoring.script.place import place
from holdfast.authoring.script.workflows import Call
from holdfast.client.start_options import Collected, StartOptions
from holdfast.core import events as e
from holdfast.core.durations import Duration, format_duration, parse_duration
from holdfast.core.ids import check_id
from holdfast.core.instants import instant_after
from holdfast.core.messages import encode_event
from holdfast.core.payload import MAX_INLINE
from holdfast.core.specs import WorkflowSpec
from holdfast.errors import InvalidInput
from holdfast.ports.runs import Joining

MOST = 10_000
"""Inputs of one collected run."""


def joined_start(started: e.Started, run_id: str, how: StartOptions, now: datetime) -> tuple[e.Started, Joining]:
    """The start of a run that others may join, and how it joins one that is there."""
    message = f"input {run_id}"
    if how.collects is not None:
        return _collected(started, message, how.collects, now)
    wait, longest = checked_debounce(how)
    begins = instant_after(now, wait, "debounce")
    event = e.InputGiven(
        message=message,
        value=started.value,
        blob=started.blob,
        refs=started.refs,
        begins_at=begins,
        trace=started.trace,
    )
    latest = None if longest is None else instant_after(now, longest, "max_wait")
    first = msgspec.structs.replace(started, available_at=begins, latest=latest)
    return first, Joining(message=message, body=encode_event(event), begins_at=begins)


def _collected(started: e.Started, message: str, how: Collected, now: datetime) -> tuple[e.Started, Joining]:
    begins = instant_after(now, how.within, "within") if how.most > 1 else now
    (item,) = msgspec.json.decode(
        msgspec.json.decode(started.value, type=dict[str, msgspec.Raw])[how.into], type=list[msgspec.Raw]
    )
    event = e.InputGiven(message=message, into=how.into, value=item, refs=started.refs, trace=started.trace)
    first = msgspec.structs.replace(started, available_at=begins, latest=begins, most=how.most)
    return first, Joining(message=message, body=encode_event(event), room=how.most - 1, makes_another=True)


def checked_debounce(how: StartOptions) -> tuple[timedelta, timedelta | None]:
    """How long to wait after each start, and at most."""
    if how.debounce is None:
        raise InvalidInput("max_wait= is for debounce=: it limits how long further starts can delay the run")
    wait = _positive(how.debounce, "debounce")
    longest = None if how.max_wait is None else parse_duration(how.max_wait, what="max_wait")
    if how.unique is None:
        raise InvalidInput("debounce= needs unique=: starts with the same value become one run, the last input wins")
    given = {"id": how.id, "key": how.key, "delay": how.delay, "if_exists": how.if_exists}
    wrong = [f"{name}=" for name, value in given.items() if value is not None]
    if wrong:
        raise InvalidInput(
            f"debounce= with {' and '.join(wrong)}: it decides which run a start becomes and when that run begins. "
            f"Leave out {' and '.join(wrong)}"
        )
    if longest is not None and longest < wait:
        raise InvalidInput(
            f"max_wait={format_duration(longest)} is shorter than debounce={format_duration(wait)}: no start could "
            "delay the run. Give a longer max_wait, or leave it out"
        )
    return wait, longest


def collected(spec: WorkflowSpec, into: str, within: Duration, most: int) -> Collected:
    """What `collect` was asked for; `InvalidInput` if it cannot be."""
    names, name = spec.arguments.names, spec.name
    if into not in names:
        raise InvalidInput(
            f"collect({name}, into={into!r}): {name} has no such parameter. It has: {', '.join(names) or 'none'}"
        )
    if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= MOST:
        raise InvalidInput(f"collect(most={most!r}): give a whole number between 1 and {MOST:,}")
    return Collected(into, _positive(within, "within"), most)


def call_with(spec: WorkflowSpec, item: object, into: str) -> Call[Any]:
    """The call with just this item, which is small enough to be kept in the journal."""
    args = spec.arguments.encode((), {into: [item]})
    value = msgspec.json.decode(args, type=dict[str, msgspec.Raw])[into]
    if not bytes(value).startswith(b"["):
        raise InvalidInput(f"collect({spec.name}, into={into!r}): this parameter is not a list of what is collected")
    if len(args) > MAX_INLINE:
        raise InvalidInput(
            f"collect({spec.name}): the item has {len(args):,} bytes, more than {MAX_INLINE:,}. Store it as a blob and "
            "collect its reference"
        )
    return Call(spec, args, place(0))


def collected_value(how: Collected, queue: str, unique: str | None) -> str:
    """The value that collected calls share. No value of a user's begins with a space."""
    return f" {how.into}\n{queue}\n{check_id(unique, 'unique') if unique is not None else ''}"


def _positive(value: Duration, what: str) -> timedelta:
    found = parse_duration(value, what=what)
    if not found:
        raise InvalidInput(f"{what}={value!r}: give a duration longer than zero, such as '30s'")
    return found
