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
    w8_runs: int = 500
    w8_steps: int = 20
    w7_seconds: float = 10.0
    raw_commits: int = 500
    ttl_seconds: float = 15.0
    peer_runs: int = 500
    peer_queued: int = 5
    w9_steps: tuple[int, ...] = (1_000, 10_000, 100_000)
    w9_rows: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    w9_claims: int = 200
    w9_children: tuple[int, ...] = (100, 1_000, 10_000)


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
    w8_runs=100,
    w7_seconds=4.0,
    raw_commits=200,
    ttl_seconds=3.0,
    peer_runs=100,
    peer_queued=2,
    w9_steps=(500, 2_000, 5_000),
    w9_rows=(1_000, 10_000, 100_000),
    w9_claims=50,
    w9_children=(50, 200, 500),
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
    peer_runs=5,
    peer_queued=1,
    w9_steps=(10, 20, 30),
    w9_rows=(10, 20, 40),
    w9_claims=3,
    w9_children=(2, 4, 8),
)
SCALES = {scale.name: scale for scale in (FULL, QUICK, TINY)}
