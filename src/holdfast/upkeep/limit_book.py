"""The row of a limit moved from one revision to the next. Whoever comes second looks again and decides anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from holdfast.core.limit import LimitState, Rule, declared_rule
from holdfast.errors import CorruptJournal, LimitNotFound, StoreContended
from holdfast.ports.limits import StoredLimit
from holdfast.ports.store import Store

TRIES = 20
_decode = msgspec.json.Decoder(LimitState).decode


def state_of(stored: StoredLimit) -> LimitState:
    """What is known of it; `CorruptJournal` if that cannot be read."""
    try:
        return _decode(stored.body)
    except (msgspec.DecodeError, ValueError) as error:
        raise CorruptJournal(
            f"limit {stored.name}: its row cannot be read ({error}). Set it again: holdfast limits set {stored.name} …"
        ) from error


async def change(store: Store, name: str, decide: Callable[[LimitState], LimitState]) -> StoredLimit:
    """Changes a limit by hand: `decide` says what it is to be. Returns it as it is now."""
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
    """A worker says what its steps declare. A limit that it declares unchanged costs one read."""
    if not rules:
        return
    live = {worker.instance for worker in await store.workers() if worker.is_live}
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


def missing(store: Store, name: str) -> LimitNotFound:
    """There is none of that name."""
    return LimitNotFound(f"no limit {name!r} in {store.url}; list what is there: holdfast limits")


def contended(name: str) -> StoreContended:
    """It changes faster than we can."""
    return StoreContended(f"limit {name}: other processes changed it {TRIES} times meanwhile. Try again.")
