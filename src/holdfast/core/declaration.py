"""Which of several definitions of a schedule applies while workers of two deploys run side by side.

Of the definitions that live workers declare, the newest to this store applies. So a new deploy takes over with its
first worker, an old worker that restarts changes nothing, and after a rollback, when the last new worker has gone, the
old definition applies again. A definition made with `app.schedule` applies until a newer one is declared. If no live
worker declares any, the last one still applies.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

import msgspec

from holdfast.core.schedule import Declared, Definition, ScheduleState

REMEMBERED = 20
"""Maximum number of definitions of a schedule that are remembered."""


def declared(
    state: ScheduleState | None, definition: Definition, *, instance: str, by: str, live: Collection[str], now: datetime
) -> ScheduleState:
    """The schedule after a worker has declared this definition."""
    if state is None:
        first = Declared(digest=definition.digest, number=1, by=by, instances=(instance,), definition=definition)
        return ScheduleState(definition=definition, made_at=now, cursor=now, declared=(first,))
    digest, known = definition.digest, {one.digest: one for one in state.declared}
    one = known.get(digest) or Declared(digest=digest, number=_newest(state) + 1)
    instances = tuple(dict.fromkeys((*one.instances, instance)))
    known[digest] = msgspec.structs.replace(one, instances=instances, by=by, definition=definition)
    for other in set(known) - {digest}:  # an instance declares one definition of a name
        kept = tuple(each for each in known[other].instances if each != instance)
        known[other] = msgspec.structs.replace(known[other], instances=kept)
    noted = msgspec.structs.replace(state, declared=tuple(known.values()))
    return settled(noted, {*live, instance}, now)


def made_by_hand(state: ScheduleState | None, definition: Definition, *, by: str, now: datetime) -> ScheduleState:
    """The schedule after a person has made or changed it."""
    number = 1 if state is None else _newest(state) + 1
    one = Declared(digest=definition.digest, number=number, by=by, definition=definition, by_hand=True)
    if state is None:
        return ScheduleState(definition=definition, made_at=now, cursor=now, declared=(one,))
    same = [each for each in state.declared if each.digest == one.digest]
    if same:
        one = msgspec.structs.replace(one, instances=same[0].instances)
    others = tuple(each for each in state.declared if each.digest != one.digest)
    return with_definition(msgspec.structs.replace(state, declared=(*others, one)), definition, now)


def settled(state: ScheduleState, live: Collection[str], now: datetime) -> ScheduleState:
    """The schedule with the definition that applies while these instances are alive."""
    found = [_living(one, live) for one in state.declared]
    candidates = [one for one in found if one.definition is not None]
    if not candidates:
        return msgspec.structs.replace(state, declared=_remembered(found))
    winner = max(candidates, key=lambda one: one.number)
    found = [msgspec.structs.replace(one, by_hand=False) if one.number < winner.number else one for one in found]
    found = [_living(one, live) for one in found]
    assert winner.definition is not None
    return with_definition(msgspec.structs.replace(state, declared=_remembered(found)), winner.definition, now)


def with_definition(state: ScheduleState, definition: Definition, now: datetime) -> ScheduleState:
    """The schedule with this definition from now on. A new timetable begins now; slots missed by the old one are
    over."""
    if definition == state.definition:
        return state
    if definition.timetable == state.definition.timetable:
        return msgspec.structs.replace(state, definition=definition)
    same_zone = definition.timetable.tz == state.definition.timetable.tz
    local = state.last_local if same_zone else ""
    return msgspec.structs.replace(state, definition=definition, cursor=max(now, state.cursor), last_local=local)


def is_declared(state: ScheduleState, live: Collection[str]) -> bool:
    """Whether a live worker declares it, or a person made it."""
    return any(one.by_hand or set(one.instances) & set(live) for one in state.declared)


def has_rivals(state: ScheduleState) -> bool:
    """Whether workers of several deploys declare it, as far as known."""
    return sum(bool(one.instances) for one in state.declared) > 1


def _living(one: Declared, live: Collection[str]) -> Declared:
    instances = tuple(each for each in one.instances if each in live)
    definition = one.definition if instances or one.by_hand else None
    return msgspec.structs.replace(one, instances=instances, definition=definition)


def _remembered(found: list[Declared]) -> tuple[Declared, ...]:
    """All definitions that may apply, and the newest of the others."""
    ranked = sorted(found, key=lambda one: (one.definition is not None, one.number), reverse=True)
    return tuple(sorted(ranked[:REMEMBERED], key=lambda one: one.number))


def _newest(state: ScheduleState) -> int:
    return max((one.number for one in state.declared), default=0)
