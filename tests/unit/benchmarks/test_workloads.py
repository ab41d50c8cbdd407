"""Each workload runs, at a size that takes a moment, and says figures that make sense."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.figures import FIGURES
from benchmarks.places import STORES, placed
from benchmarks.profiling import PROFILED, profile
from benchmarks.scale import TINY
from benchmarks.workloads import WORKLOADS

pytestmark = pytest.mark.slow

WITH_PROCESSES = {"W4", "W5", "W6"}


OF_PEERS = {"W4.queue.p50", "W4.tuned.p50"}
OF_FILES = {"W7.reads", "W7.looks"}


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in WITH_PROCESSES else []) for name in WORKLOADS]
)
async def test_a_workload_measures_what_it_says(name: str, store: str, tmp_path: Path) -> None:
    """Promise: every figure of the table comes out of its workload, as a positive number, on every kind of store."""
    with placed(store, tmp_path) as place:
        found = await WORKLOADS[name](TINY, place)
    expected = {figure.key for figure in FIGURES if figure.workload == name} - OF_PEERS
    assert expected - (OF_FILES if store != "sqlite" else set()) <= set(found)
    may_be_nothing = {"W5.lease", "W7.memory", "W7.writes", "W7.reads", "W7.looks", "W6.grown", "W8.one", "W8.many"}
    assert all(value > 0 for key, value in found.items() if key not in may_be_nothing), found
    beside = {key: value for key, value in found.items() if key.endswith(".raw")}
    assert all(0.001 < value < 1000 for value in beside.values()), beside


async def test_a_lease_is_told_apart(tmp_path: Path) -> None:
    """Promise: what W5 subtracts is at most the lease, and leaves something."""
    with placed("sqlite", tmp_path) as place:
        found = await WORKLOADS["W5"](TINY, place)
    assert 0 <= found["W5.lease"] <= TINY.ttl_seconds
    assert found["W5.total"] > found["W5.lease"]
    assert found["W5.after"] == pytest.approx(found["W5.total"] - found["W5.lease"])


@pytest.mark.parametrize("workload", [name for name in PROFILED if name not in ("W6", "W7")])
def test_a_profile_counts_what_a_step_costs(workload: str, tmp_path: Path) -> None:
    """Promise: the profile says statements, commits and syncs per step, and a share for each layer."""
    text = profile(workload, TINY, tmp_path)
    for word in (
        "statements",
        "commits",
        "syncs",
        "msgspec encodes",
        "msgspec decodes",
        "engine and worker",
        "asyncio",
    ):
        assert word in text


def test_a_profile_of_a_server_counts_what_is_asked_of_it(tmp_path: Path) -> None:
    """Promise: on PostgreSQL a step in sequence is one question, and it is named."""
    with placed("postgresql", tmp_path) as place:
        text = profile("W2", TINY, tmp_path, place.url)
    assert "/* commit_plain */" in text
    assert "SQLite or psycopg itself" in text


def test_a_profile_of_idling_leaves_out_what_came_before(tmp_path: Path) -> None:
    """Promise: what a second of sleep costs, and nothing of how the sleepers came to be asleep."""
    text = profile("W7", TINY, tmp_path)
    assert "µs/second" in text
    assert "INSERT INTO runs" not in text
    assert "INSERT INTO runs" in profile("W1", TINY, tmp_path)


def test_a_profile_of_a_launch_says_its_phases(tmp_path: Path) -> None:
    """Promise: interpreter, imports by package, claim, reading and replay, each with its time."""
    text = profile("W6", TINY, tmp_path)
    for word in ("interpreter", "imports", "claimed", "folded", "replay", "modules  holdfast"):
        assert word in text
