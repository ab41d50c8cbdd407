"""How much of each workload is done."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """Sizes of all workloads, and seconds where time is what is measured."""

    name: str
    w1_runs: int = 2_000
    w2_steps: int = 1_000
    w3_runs: int = 100
    w3_steps: int = 20
    w4_runs: int = 200
    w5_runs: int = 500
    w6_steps: int = 5_000
    w7_runs: int = 5_000
    w8_runs: int = 100
    w8_steps: int = 20
    w7_seconds: float = 10.0
    raw_commits: int = 500
    ttl_seconds: float = 3.0


FULL = Scale("full")
QUICK = Scale(
    "quick",
    w1_runs=500,
    w2_steps=300,
    w3_steps=5,
    w4_runs=50,
    w5_runs=100,
    w6_steps=1_000,
    w7_runs=1_000,
    w7_seconds=4.0,
    raw_commits=200,
)
TINY = Scale(
    "tiny",
    w1_runs=12,
    w2_steps=12,
    w3_runs=4,
    w3_steps=3,
    w4_runs=4,
    w5_runs=4,
    w6_steps=30,
    w7_runs=20,
    w8_runs=10,
    w7_seconds=0.5,
    raw_commits=20,
    ttl_seconds=1.0,
)
SCALES = {scale.name: scale for scale in (FULL, QUICK, TINY)}
