"""The tries of one call to a lease manager."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from holdfast.adapters.leases import tries
from holdfast.adapters.leases.tries import LONGEST_PAUSE, Tries


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A monotonic clock that stands where the test puts it."""
    now = [100.0]
    monkeypatch.setattr(tries, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_each_server_gets_its_share_of_the_patience(clock: list[float]) -> None:
    """Contract: a third at most, and what is left at the end; never nothing."""
    asked = Tries(6.0, servers=5)
    assert (asked.left, asked.seconds) == (6.0, 2.0)
    clock[0] += 5
    assert (asked.left, asked.seconds) == (1.0, 1.0)
    clock[0] += 2
    assert asked.left < 0
    assert asked.seconds > 0


def test_one_server_gets_all_of_it(clock: list[float]) -> None:
    """Contract: there is no other to ask."""
    assert Tries(6.0, servers=1).seconds == 6.0


def test_pauses_grow_and_end_with_the_patience(clock: list[float]) -> None:
    """Contract: a server that comes back is asked soon, one that does not is not hammered."""
    asked = Tries(6.0, servers=1)
    pauses = [asked.pause() for _ in range(8)]
    assert pauses == sorted(pauses)
    assert (pauses[0] < 0.1, pauses[-1]) == (True, LONGEST_PAUSE)
    clock[0] += 5.9
    assert asked.pause() == pytest.approx(0.1)
    clock[0] += 1
    assert asked.pause() == 0.0


def test_a_try_that_ran_out_of_time_hides_no_reason(clock: list[float]) -> None:
    """Contract: what the last try was cut short by is our patience; the reason from before is what people need. Of a
    server that gave none, it is all there is."""
    asked = Tries(2.0, servers=2)
    asked.note("one", "certificate expired")
    clock[0] += 2
    asked.note("one", "deadline exceeded")
    asked.note("two", "deadline exceeded")
    told = str(asked.error("etcd", ()))
    assert told == "etcd does not answer within 2.0 s. one: certificate expired; two: deadline exceeded"


def test_the_error_tells_the_last_words_of_each(clock: list[float]) -> None:
    """Contract: by address, with advice."""
    asked = Tries(2.0, servers=2)
    asked.note("one", "refused")
    asked.note("two", "no tls")
    asked.note("one", "reset")
    told = str(asked.error("etcd", (("tls", "See ca"),)))
    assert told == "etcd does not answer within 2.0 s. one: reset; two: no tls. See ca"
