"""The rules of a queue are moved from one revision to the next, whoever else writes them."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.adapters.memory import MemoryStore, VirtualClock
from holdfast.core.gate import OPEN
from holdfast.core.queue import QueueState
from holdfast.errors import CorruptJournal, StoreContended
from holdfast.ports.queues import QueueChange, StoredQueue
from holdfast.queues.rulebook import TRIES, change_rules, queue_state
from holdfast.testing.conformance.world import START


class Raced(MemoryStore):
    """A store in which another process writes the queue between our read and our write, a number of times."""

    others = 0

    async def change_queue(self, change: QueueChange) -> bool:
        if self.others:
            self.others -= 1
            other = msgspec.json.encode(QueueState(reason=f"other {self.others}"))
            assert await super().change_queue(msgspec.structs.replace(change, body=other))
        return await super().change_queue(change)


def noted(state: QueueState) -> QueueState:
    """Adds our word to what another process wrote."""
    return msgspec.structs.replace(state, reason=f"{state.reason}, ours")


async def test_a_change_is_decided_again_after_that_of_another_process() -> None:
    """Contract: nothing that another process wrote is lost, and the decision is about what stands there now."""
    store = Raced(VirtualClock(START))
    store.others = 2
    assert (await change_rules(store, "mail", noted)).reason == "other 0, ours"
    assert queue_state(await store.queue("mail")).reason == "other 0, ours"


async def test_an_endless_race_is_an_error_that_says_so() -> None:
    store = Raced(VirtualClock(START))
    store.others = TRIES
    with pytest.raises(StoreContended, match="queue mail: other processes changed it 20 times"):
        await change_rules(store, "mail", noted)


async def test_unreadable_rules_are_only_replaced_on_request() -> None:
    """Contract: rules that cannot be read name their queue and the command, and stay until somebody declares anew."""
    store = MemoryStore(VirtualClock(START))
    assert await store.change_queue(QueueChange(name="mail", revision=0, body=b"{{", gate=OPEN))
    with pytest.raises(CorruptJournal, match="holdfast queues reset mail"):
        await change_rules(store, "mail", noted)
    stored = await store.queue("mail")
    assert isinstance(stored, StoredQueue)
    assert stored.body == b"{{"
    assert (await change_rules(store, "mail", noted, replaces=True)).reason == ", ours"
