"""Moves the row of a limit from one revision to the next. A process that comes second reads it again and decides
again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from holdfast.core.limit import LimitState, Rule, declared_rule, settled_limit
from holdfast.errors import CorruptJournal, LimitNotFound, StoreContended
from holdfast.ports.leases import live_instances
from holdfast.ports.limits import StoredLimit
from holdfast.ports.store import Store

TRIES = 20
_decode = msgspec.json.Decoder(LimitState).decode


def state_of(stored: StoredLimit) -> LimitState:
    """The state of the limit. Raises `CorruptJournal` if it cannot be read."""
    try:
        return _decode(stored.body)
    except (msgspec.DecodeError, ValueError) as error:
        raise CorruptJournal(
            f"limit {stored.name}: its row cannot be read ({error}). Set it again: holdfast limits set {stored.name} …"
        ) from error


async def change(store: Store, name: str, decide: Callable[[LimitState], LimitState]) -> StoredLimit:
    """Changes a limit by hand: `decide` computes its new state. Returns the new state."""
    for _ in range(TRIES):
        stored = await store.limit(name)
        if stored is None:
            raise missing(store, name)
        state = state_of(stored)
        wanted = decide(state)
        if wanted == state:
            return stored
        moved = msgspec.structs.replace(
            stored,
            rule=wanted.rule or stored.rule,
            is_paused=wanted.is_paused,
            body=msgspec.json.encode(wanted),
        )
        if await store.put_limit(moved):
            return msgspec.structs.replace(moved, revision=moved.revision + 1)
    raise contended(name)


async def declare(store: Store, rules: Mapping[str, Rule], *, instance: str) -> None:
    """Declares the limits of a worker's steps. An unchanged one costs one read."""
    if not rules:
        return
    live = await live_instances(store)
    for name, rule in rules.items():
        for _ in range(TRIES):
            stored = await store.limit(name)
            known = LimitState() if stored is None else state_of(stored)
            state = declared_rule(known, rule, instance, live)
            counts = state.rule or rule
            if stored is not None and state == known and stored.rule == counts:
                break
            revision = 0 if stored is None else stored.revision
            body = msgspec.json.encode(state)
            row = StoredLimit(name=name, revision=revision, rule=counts, is_paused=state.is_paused, body=body)
            if await store.put_limit(row):
                break


async def settle_limits(store: Store, names: Iterable[str]) -> None:
    """Applies the rules that live workers declare to these limits: workers may have come and gone. Nothing is written
    unless another rule counts."""
    live = await live_instances(store)
    for name in names:
        stored = await store.limit(name)
        if stored is not None and settled_limit(state_of(stored), live).rule not in {None, stored.rule}:
            await change(store, name, lambda state: settled_limit(state, live))


def missing(store: Store, name: str) -> LimitNotFound:
    """The error for an unknown name."""
    return LimitNotFound(f"no limit {name!r} in {store.url}; list what is there: holdfast limits")


def contended(name: str) -> StoreContended:
    """The error for a limit that changes faster than we can."""
    return StoreContended(f"limit {name}: other processes changed it {TRIES} times meanwhile. Try again.")
