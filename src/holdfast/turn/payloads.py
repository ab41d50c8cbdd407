"""Payloads of events: inline, or as the name of a blob."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from holdfast.core import commands as c
from holdfast.core import events as e
from holdfast.core.payload import MAX_INLINE
from holdfast.core.references import MARK, names_of
from holdfast.core.turn import Turn

READ_BY_PROGRAMS = (
    e.Started,
    e.Continued,
    e.StepCompleted,
    e.SignalReceived,
    e.TopicReceived,
    e.ChildEnded,
    e.InputGiven,
)


def blobs_wanted(turns: Iterable[Turn]) -> set[str]:
    """Names of the blobs that a program will read."""
    wanted: set[str] = set()
    for turn in turns:
        for event in turn.events:
            for fact in event.facts if isinstance(event, e.Adopted) else (event,):
                if isinstance(fact, READ_BY_PROGRAMS) and fact.blob:
                    wanted.add(fact.blob)
    return wanted


def blobs_named(turns: Iterable[Turn]) -> set[str]:
    """Names of all the blobs that hold payloads of these turns."""
    return {
        name
        for turn in turns
        for event in turn.events
        for fact in (event.facts if isinstance(event, e.Adopted) else (event,))
        if isinstance(fact, e.Carrier)
        for name in names_of(fact)
    }


def inline(event: e.AnyEvent, blobs: Mapping[str, bytes]) -> e.AnyEvent:
    if isinstance(event, e.Adopted):
        facts: Any = tuple(inline(fact, blobs) for fact in event.facts)
        return e.Adopted(facts=facts)
    if isinstance(event, READ_BY_PROGRAMS) and event.blob:
        return msgspec.structs.replace(event, value=msgspec.Raw(blobs[event.blob]), blob="")
    return event


def offload_all(events: list[e.AnyEvent], blobs: dict[str, bytes]) -> None:
    """Makes the events ready for the journal, see `offload`. Most payloads are small and refer to nothing."""
    event: Any
    for place, event in enumerate(events):
        if type(event) in e.CARRIERS and (len(event.value) > MAX_INLINE or bytes(event.value).find(MARK) >= 0):
            events[place] = offload(event, blobs)


def offload(event: e.AnyEvent, blobs: dict[str, bytes]) -> e.AnyEvent:
    """The event for the journal: with the references of its payload, and with a large payload moved to `blobs`. One
    that came with references, or as a blob, was made elsewhere."""
    if isinstance(event, e.Carrier) and not event.blob and not event.refs:
        value, blob, refs = c.carry(bytes(event.value), blobs)
        if blob or refs:
            return msgspec.structs.replace(event, value=value, blob=blob, refs=refs)
    return event
