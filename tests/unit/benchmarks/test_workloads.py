"""Each workload runs, at a size that takes a moment, and says figures that make sense."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.profiling import PROFILED, profile
from benchmarks.report import lines_of, markdown, save
from benchmarks.scale import TINY
from benchmarks.workloads import FIGURES, WORKLOADS

WITH_PROCESSES = {"W4", "W5", "W6"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in WITH_PROCESSES else []) for name in WORKLOADS]
)
async def test_a_workload_measures_what_it_says(name: str, tmp_path: Path) -> None:
    """Promise: every figure of the table comes out of its workload, as a positive number."""
    found = await WORKLOADS[name](TINY, tmp_path)
    expected = {figure.key for figure in FIGURES if figure.key.partition(".")[0] == name}
    assert expected <= set(found)
    may_be_nothing = {"W5.lease", "W7.memory", "W7.writes", "W7.reads", "W6.grown", "W8.one", "W8.many"}
    assert all(value > 0 for key, value in found.items() if key not in may_be_nothing), found
    beside = {key: value for key, value in found.items() if key.endswith(".raw")}
    assert all(0.001 < value < 1000 for value in beside.values()), beside


async def test_a_lease_is_told_apart(tmp_path: Path) -> None:
    """Promise: what W5 subtracts is at most the lease, and leaves something."""
    found = await WORKLOADS["W5"](TINY, tmp_path)
    assert 0 <= found["W5.lease"] <= TINY.ttl_seconds
    assert found["W5.total"] > found["W5.lease"]
    assert found["W5.after"] == pytest.approx(found["W5.total"] - found["W5.lease"])


@pytest.mark.parametrize("workload", PROFILED)
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


def test_the_report_judges_medians(tmp_path: Path) -> None:
    """Promise: the median counts, a required figure that is missed is named so, and the files hold all rounds."""
    rounds = {"W2.async": [90.0, 100.0, 300.0], "W2.async.raw": [0.1, 0.4, 0.9], "W8.one": [180.0, 200.0, 190.0]}
    lines = {line.figure.key: line for line in lines_of(rounds)}
    assert lines["W2.async"].median == 100.0
    assert lines["W2.async"].raw == 0.4
    assert lines["W2.async.raw"].verdict == "MISSED"
    assert lines["W8.one"].verdict == "ok"
    facts = {
        "machine": {"processor": "x", "cores": 2, "memory_gb": 4, "system": "y"},
        "versions": {"python": "3.11", "sqlite": "3"},
        "rounds": 3,
        "scale": "tiny",
    }
    assert "| W8 | bytes on disk per step, one long run | 190 B |" in markdown(list(lines.values()), facts)
    save(tmp_path / "results.json", list(lines.values()), facts, rounds)
    assert '"rounds": [\n        90.0' in (tmp_path / "results.json").read_text(encoding="utf-8")
