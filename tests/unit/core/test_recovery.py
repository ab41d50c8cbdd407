"""What a worker's recovery found."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from holdfast.core.recovery import REMEMBERED, Recovery, decode_recovery, encode_recovery

NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)


def test_the_last_runs_of_dead_workers_are_named_with_the_worker() -> None:
    """Promise: who took over from whom; they do not displace what needs attention, and the stored form keeps both."""
    met = Recovery().with_one("failed", "bad", "why", NOON)
    for number in range(REMEMBERED + 2):
        met = met.with_one("taken over", f"r{number}", "worker-1", NOON + timedelta(seconds=number))
    met = decode_recovery(encode_recovery(met.with_one("own", "mine", "", NOON)))
    assert [(one.run, one.detail) for one in met.taken] == [(f"r{n}", "worker-1") for n in range(2, REMEMBERED + 2)]
    assert [one.run for one in met.recent] == ["bad"]
    assert met.counts == {"failed": 1, "taken over": REMEMBERED + 2, "own": 1}
