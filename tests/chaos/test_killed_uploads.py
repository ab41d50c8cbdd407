"""Payloads in S3 under kills, in small; the lab does it with a thousand of 1 MB and ten of 64 MB (`dev.py lab --only
buckets`)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.chaos.bucket_fleet import BucketFleet, check
from tests.support import s3

SIZES = [300_000] * 8 + [9_000_000]


@pytest.mark.slow
@pytest.mark.today
@pytest.mark.timeout(300)
async def test_kills_lose_no_payload_and_leave_nothing_that_a_sweep_does_not_take(
    tmp_path: Path, rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise: whenever workers die, also between upload and commit: every payload is there, a sweep leaves one object
    of each that is referred to, and none when the runs are gone."""
    for name, value in s3.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    fleet = BucketFleet(tmp_path, f"sqlite:///{tmp_path / 'a.db'}", rng, every=4)
    try:
        await fleet.play(SIZES, each=2)
    finally:
        fleet.stop()
    found = await check(fleet, SIZES)
    assert found.kills >= found.between > 0
    assert found.left > 0
