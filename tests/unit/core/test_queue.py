"""The rules of queues: what they may be, and which declaration counts."""

from __future__ import annotations

import pytest

from holdfast.core.gate import OPEN
from holdfast.core.queue import QueueRules, QueueState, declared_queue, is_declared_queue, make_rules, settled_queue
from holdfast.core.rate import Rate
from holdfast.errors import InvalidQueue

OLD, NEW = QueueRules(at_once=1), QueueRules(at_once=2)


def declare(state: QueueState, rules: QueueRules, instance: str, *live: str) -> QueueState:
    return declared_queue(state, rules, instance=instance, by=f"w-{instance}", live=live)


def test_the_rules_seen_last_count() -> None:
    """Contract: a new deploy takes over with its first worker; an old worker that restarts changes nothing."""
    state = declare(QueueState(), OLD, "old1")
    state = declare(state, NEW, "new1", "old1")
    assert state.effective == NEW
    state = declare(state, OLD, "old2", "old1", "new1")
    assert state.effective == NEW


def test_a_rollback_works() -> None:
    """Contract: when the last worker of the new deploy has gone, the old rules count again; and deployed once more, the
    new ones do."""
    state = declare(declare(QueueState(), OLD, "old1"), NEW, "new1", "old1")
    state = settled_queue(state, {"old1"})
    assert state.effective == OLD
    state = declare(state, NEW, "new2", "old1")
    assert state.effective == NEW


def test_rules_stay_when_no_worker_declares_them() -> None:
    """Contract: nothing changes because all workers are down."""
    state = settled_queue(declare(QueueState(), NEW, "new1"), set())
    assert state.effective == NEW
    assert not is_declared_queue(state, {"other"})


def test_an_instance_declares_a_queue_once() -> None:
    state = declare(declare(QueueState(), OLD, "i"), NEW, "i")
    assert [one.instances for one in state.declared if one.rules] == [("i",)]
    assert settled_queue(state, {"i"}).effective == NEW


def test_many_deploys_leave_few_rows_behind() -> None:
    state = QueueState()
    for number in range(1, 100):
        state = declare(state, QueueRules(at_once=number), f"i{number}", f"i{number - 1}")
    assert len(state.declared) <= 20
    assert state.effective.at_once == 99


def test_what_is_set_by_hand_counts_first_rule_by_rule() -> None:
    """Contract: until it is reset; what is declared meanwhile shows in all other rules."""
    state = QueueState(rules=QueueRules(at_once=1, per_worker=3), overrides={"at_once": None, "share_at_once": 2})
    assert state.effective == QueueRules(per_worker=3, share_at_once=2)
    later = declare(state, QueueRules(at_once=5, per_worker=4), "i")
    assert later.effective == QueueRules(per_worker=4, share_at_once=2)


def test_a_queue_without_rules_has_an_open_gate() -> None:
    assert QueueState().gate == OPEN
    assert not QueueState().gate.is_shut
    assert QueueState(is_paused=True).gate.is_shut
    assert all(
        QueueState(rules=rules).gate.is_shut
        for rules in (NEW, QueueRules(rate=Rate(1, "s")), QueueRules(shares={"a": 2.0}), QueueRules(share_at_once=1))
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"at_once": 0}, {"at_once": -1}, {"at_once": True}, {"at_once": 1.5}, {"at_once": "5"}, {"per_worker": 0},
        {"share_at_once": 0}, {"rate": "50/x"}, {"rate": 50}, {"shares": {"gold": 0}}, {"shares": {"gold": -1}},
        {"shares": {"gold": float("nan")}}, {"shares": {"gold": float("inf")}}, {"shares": {"gold": "3"}},
        {"shares": {"": 1}}, {"shares": {3: 1}}, {"shares": ["gold"]}, {"parked": "stays"}, {"at_once": 10**10},
    ],
)  # fmt: skip
def test_rules_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    """Contract: the error names the queue, the rule and what to write."""
    with pytest.raises(InvalidQueue, match=r"Queue\('mail'\): "):
        make_rules("Queue('mail')", **wrong)
