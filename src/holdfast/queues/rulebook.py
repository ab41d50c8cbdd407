"""Moves the rules of one queue from one revision to the next. A process that comes second reads them again and decides
again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from holdfast.core.queue import QueueRules, QueueState, declared_queue, settled_queue
from holdfast.errors import CorruptJournal, StoreContended
from holdfast.ports.leases import live_instances
from holdfast.ports.queues import QueueChange, StoredQueue
from holdfast.ports.store import Store

TRIES = 20
_decode = msgspec.json.Decoder(QueueState).decode


def queue_state(stored: StoredQueue | None) -> QueueState:
    """The state of the queue. Raises `CorruptJournal` if it cannot be read."""
    if stored is None or not stored.body:
        return QueueState()
    try:
        return _decode(stored.body)
    except (msgspec.DecodeError, ValueError) as error:
        raise CorruptJournal(
            f"queue {stored.name}: its rules cannot be read ({error}). Write them again: holdfast queues reset "
            f"{stored.name}, then start a worker that declares it."
        ) from error


async def change_rules(
    store: Store, name: str, decide: Callable[[QueueState], QueueState], *, replaces: bool = False
) -> QueueState:
    """Changes a queue: `decide` computes its new state from the current one. Returns the new state. `replaces`:
    unreadable rules count as none."""
    for _ in range(TRIES):
        stored = await store.queue(name)
        try:
            state = queue_state(stored)
        except CorruptJournal:
            if not replaces:
                raise
            state = QueueState()
        wanted = decide(state)
        if wanted == state and (stored is None or not stored.body or stored.gate == wanted.gate):
            return state
        revision = 0 if stored is None else stored.revision
        body = msgspec.json.encode(wanted)
        if await store.change_queue(QueueChange(name=name, revision=revision, body=body, gate=wanted.gate)):
            return wanted
    raise StoreContended(f"queue {name}: other processes changed it {TRIES} times meanwhile. Try again.")


async def declare_queues(store: Store, queues: Mapping[str, QueueRules], *, instance: str, by: str) -> None:
    """A worker declares these queues."""
    live = await live_instances(store) if queues else frozenset[str]()
    for name, rules in queues.items():
        await change_rules(
            store,
            name,
            lambda state, rules=rules: declared_queue(state, rules, instance=instance, by=by, live=live),  # type: ignore[misc]
            replaces=True,
        )


async def settle_queues(store: Store, names: Iterable[str]) -> None:
    """Applies the rules that live workers declare to these queues: workers may have come and gone."""
    live = await live_instances(store)
    for name in names:
        await change_rules(store, name, lambda state: settled_queue(state, live))
