"""What a worker says when the loop, the process or the store is silent."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import pytest

from holdfast import facts
from holdfast.errors import StoreUnavailable
from holdfast.ports.leases import Beat, Heart
from holdfast.worker.heartbeat import Heartbeat
from holdfast.worker.watchdog import Watchdog
from tests.unit.worker.test_heartbeat import NOW


def watched() -> tuple[Watchdog, list[facts.Fact], float]:
    """A watchdog that was made just now, and has not begun by itself."""
    told: list[facts.Fact] = []
    watchdog = Watchdog(told.append, patience=2)
    return watchdog, told, watchdog._seen


def test_a_process_that_was_stopped_is_not_blamed_on_code() -> None:
    """Promise: after a SIGSTOP the log says that the process stood still, and nothing of a blocked loop."""
    watchdog, told, began = watched()
    used = watchdog._used
    watchdog.look(began + 60, used + 0.01)
    assert [type(x) for x in told] == [facts.ProcessStopped]
    assert isinstance(told[0], facts.ProcessStopped)
    assert told[0].seconds == pytest.approx(60)
    watchdog.look(began + 61, used + 0.02)
    assert len(told) == 1
    watchdog.look(began + 62.5, used + 0.03)
    assert isinstance(told[1], facts.LoopBlocked)  # the loop did not turn after that either
    assert told[1].seconds == pytest.approx(2.5)


def test_a_loop_that_is_blocked_is_told_once() -> None:
    """Promise: also if what blocks it keeps the watchdog waiting, by not letting go of the interpreter."""
    watchdog, told, began = watched()
    used = watchdog._used
    for seconds in (0.5, 1.0, 1.5, 2.0, 2.5):
        watchdog.look(began + seconds, used + 0.01)
    assert [type(x) for x in told] == [facts.LoopBlocked]
    other, told, began = watched()
    other.look(began + 10, other._used + 9.9)
    assert [type(x) for x in told] == [facts.LoopBlocked]


class Flaky:
    """A heart whose store is away for some beats."""

    def __init__(self, *answers: Exception | None) -> None:
        self._answers = list(answers)

    def beat(self, *_: Any, **__: Any) -> Beat:
        answer = self._answers.pop(0)
        if answer is not None:
            raise answer
        return Beat(NOW, has_lapsed=False, orphaned=0)


def test_a_store_that_is_away_is_told_once_and_when_it_is_back() -> None:
    """Promise: each failed heartbeat with how many there were in a row, the loss once, and the return with how long it
    took."""
    told: list[facts.Fact] = []
    away = StoreUnavailable("away")
    heart = cast("Heart", Flaky(None, away, away, None, None))
    heartbeat = Heartbeat(heart, timedelta(seconds=15), str, lambda _: None, tell=told.append, worker="w")
    heartbeat.begin()
    for _ in range(5):
        heartbeat.beat()
    kinds = [facts.HeartbeatFailed, facts.StoreUnreachable, facts.HeartbeatFailed, facts.StoreReachable]
    assert [type(x) for x in told] == kinds
    assert [x.failures for x in told if isinstance(x, facts.HeartbeatFailed)] == [1, 2]
