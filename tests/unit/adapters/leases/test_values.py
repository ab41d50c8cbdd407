"""What lease managers keep under their keys."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest

from holdfast.adapters.leases.values import Heard, decoded, is_fresh, left_of, whole_seconds
from holdfast.errors import StoreUnavailable


@pytest.mark.parametrize(("ttl", "seconds"), [(0.5, 2), (2, 2), (2.001, 3), (15, 15)])
def test_leases_are_whole_seconds_and_never_shorter_than_asked(ttl: float, seconds: int) -> None:
    """Contract: managers count in whole seconds, two at least."""
    assert whole_seconds(timedelta(seconds=ttl)) == seconds


def test_what_was_renewed_just_now_is_fresh() -> None:
    """Contract: for a sixth of the lease; what is left counts from the renewal."""
    now = time.monotonic()
    assert is_fresh(now, 15)
    assert not is_fresh(now - 3, 15)
    assert timedelta(seconds=11) < left_of(now - 3, 15) <= timedelta(seconds=12)


def test_a_value_of_other_software_is_named() -> None:
    """Contract: with manager and key."""
    assert decoded("NATS", "k", b'{"seen_at": null, "ttl": 3}', Heard) == Heard(None, 3.0)
    with pytest.raises(StoreUnavailable, match="NATS: the key 'k' was written by other software"):
        decoded("NATS", "k", b"hello", Heard)
