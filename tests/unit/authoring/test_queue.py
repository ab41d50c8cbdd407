"""`Queue`, and what an app makes of it."""

from __future__ import annotations

import pytest

from holdfast import App, Queue
from holdfast.core.queue import QueueRules
from holdfast.core.rate import Rate
from holdfast.errors import DefinitionError, InvalidId, InvalidQueue
from holdfast.worker.worker_options import worker_options


def test_a_queue_keeps_its_rules() -> None:
    queue = Queue("emails", at_once=20, per_worker=5, rate="100/m", shares={"gold": 3}, share_at_once=2, parked="frees")
    assert queue.rules == QueueRules(
        at_once=20, per_worker=5, rate=Rate(100, "m"), shares={"gold": 3.0}, share_at_once=2, parked="frees"
    )
    assert repr(queue) == "<Queue emails>"


def test_wrong_queues_are_refused_where_they_are_made() -> None:
    """Contract: before any app or store is there."""
    with pytest.raises(InvalidQueue, match="at_once=0"):
        Queue("emails", at_once=0)
    with pytest.raises(InvalidId):
        Queue("")


def test_two_different_queues_of_one_name_are_refused() -> None:
    """Contract: the same rules twice are fine, two different ones are not."""
    assert App("memory://", queues=[Queue("a", at_once=1), Queue("a", at_once=1)]).queue_rules.keys() == {"a"}
    with pytest.raises(DefinitionError, match="'a' is declared twice"):
        App("memory://", queues=[Queue("a", at_once=1), Queue("a", at_once=2)])
    with pytest.raises(DefinitionError, match="takes queues"):
        App("memory://", queues=["a"])  # type: ignore[list-item]
    with pytest.raises(DefinitionError, match="takes a list of queues, not <Queue a>"):
        App("memory://", queues=Queue("a", at_once=1))  # type: ignore[arg-type]


def test_a_worker_serves_what_its_app_declares() -> None:
    """Contract: besides `default`, unless it is told otherwise."""
    assert worker_options(declared=("emails", "default")).queues == ("default", "emails")
    assert worker_options(queues=["slow"], declared=("emails",)).queues == ("slow",)
