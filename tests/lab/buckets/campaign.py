"""Buckets as a level: payloads in S3, written and read while workers are killed, many between upload and commit.

A thousand payloads of 1 MB and ten of 64 MB on PostgreSQL; with `--seeds N` so many tenths of that:

    python3 dev.py lab --only buckets --seeds 1
"""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.chaos.bucket_fleet import BucketFleet, Found, check
from tests.lab.levels import Effort, Report, level
from tests.support import s3
from tests.support.postgres import clean_url

MB: Final = 1_000_000
LARGE: Final = 64 * MB
EVERY: Final = 60
"""A worker ends itself after so many uploads, before the store hears of the last one."""


async def season(folder: Path, sizes: list[int], seed: int) -> tuple[Found, float]:
    """One store, one bucket; what was found, and the seconds until all runs had ended."""
    fleet = BucketFleet(folder, clean_url(), random.Random(seed), every=EVERY, workers=3)
    began = time.monotonic()
    try:
        await fleet.play(sizes, each=25)
    finally:
        fleet.stop()
    took = time.monotonic() - began
    return await check(fleet, sizes), took


@level("buckets", "payloads in S3 while workers are killed between upload and commit")
def buckets(effort: Effort) -> Report:
    """Ten large payloads and a thousand of 1 MB; as many tenths of that as `seeds` says."""
    report = Report()
    tenths = effort.seeds or 10
    rng = random.Random(effort.first)
    sizes = [LARGE] * tenths + [MB] * (100 * tenths)
    rng.shuffle(sizes)
    for name, value in s3.ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    with tempfile.TemporaryDirectory(prefix="holdfast-buckets-") as folder:
        try:
            found, took = asyncio.run(season(Path(folder), sizes, effort.first))
        except AssertionError as error:
            report.problems.append(f"seed {effort.first}: {error}")
            return report
    report.figures = {
        "payloads of 1 MB": sizes.count(MB),
        "payloads of 64 MB": sizes.count(LARGE),
        "workers killed": found.kills,
        "of these between upload and commit": found.between,
        "objects that the store had not heard of, collected": found.left,
        "objects of blobs that were stored again, collected": found.superseded,
        "payloads missing, damaged or left over": 0,
        "seconds until all runs had ended": round(took, 1),
    }
    report.sometimes = {
        "a worker died between upload and commit": found.between,
        "an object was left that only the sweep could take": found.left,
    }
    return report
