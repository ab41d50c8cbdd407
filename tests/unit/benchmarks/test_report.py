"""What becomes of measured figures: ratios round by round, verdicts, the file and the page made of it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import NAMES, RESULTS, beside_earlier, chosen, main, measured
from benchmarks.figures import FIGURES, Figure
from benchmarks.page import PAGE, render
from benchmarks.peers import PEERS
from benchmarks.report import MISSED, OK, Line, lines_of, load, save, save_more, show
from benchmarks.workloads import WORKLOADS

ROOT = Path(__file__).resolve().parents[3]
FACTS: dict[str, Any] = {
    "store": "sqlite",
    "machine": {"processor": "x", "cores": 2, "memory_gb": 4, "system": "y", "load_before": "0.1"},
    "versions": {"python": "3.11", "sqlite": "3", "dbos": "3.3"},
    "rounds_wanted": 3,
    "scale": "full",
}
ROUNDS = {
    "holdfast": {
        "W1.async": [100.0, 400.0, 900.0],
        "W1.async.raw": [0.5, 0.6, 0.4],
        "W1.sync": [90.0, 300.0, 500.0],
        "W5.after": [1.0, 1.2, 0.8],
        "W8.one": [260.0, 200.0, 300.0],
    },
    "dbos": {
        "W1.async": [10.0, 10.0, 10.0],
        "W1.runs": [500.0],
        "W5.after": [24.0, 24.0, 24.0],
        "W4.queue.p50": [1006.0],
    },
}


def lines() -> dict[str, Line]:
    return {line.figure.key: line for line in lines_of(ROUNDS, "dbos")}


def test_ratios_are_of_the_same_round() -> None:
    """Promise: a ratio compares two figures of one round; more is better for rates, less for durations."""
    assert lines()["W1.async"].ratios == (10.0, 40.0, 90.0)
    assert lines()["W5.after"].ratios == pytest.approx((24.0, 20.0, 30.0))


def test_medians_are_judged() -> None:
    """Promise: the median of the ratios, or of the figure itself, meets its target or misses it."""
    found = lines()
    assert found["W1.async"].verdict == OK  # 40 of 40, although one round has 10
    assert found["W5.after"].verdict == OK
    assert found["W8.one"].verdict == MISSED
    assert found["W1.sync"].ratios == (9.0, 30.0, 50.0)  # beside async bodies of the peer
    assert found["W1.sync"].verdict == OK  # 60 % of 40


def test_without_the_peer_a_ratio_is_not_judged() -> None:
    """Promise: no peer, no verdict; absolute targets are judged all the same."""
    alone = {line.figure.key: line for line in lines_of({"holdfast": ROUNDS["holdfast"]})}
    assert alone["W1.async"].verdict == ""
    assert alone["W8.one"].verdict == MISSED


def test_every_figure_has_its_workload() -> None:
    """Promise: the table asks for nothing that no workload gives, and every workload can be named."""
    assert {figure.workload for figure in FIGURES} == set(NAMES) == set(WORKLOADS)
    assert len({figure.key for figure in FIGURES}) == len(FIGURES)
    beside = {figure.beside for figure in FIGURES if figure.beside}
    assert beside <= {figure.key for figure in FIGURES}


def test_a_figure_says_how_many_times_better() -> None:
    """Promise: above one is better, whichever way the figure counts."""
    assert Figure("a", "", "").ratio(10, 5) == 2
    assert Figure("a", "", "", "less").ratio(5, 10) == 2


def test_the_report_names_what_is_missed(capsys: pytest.CaptureFixture[str]) -> None:
    """Promise: whoever reads only the end knows how many targets are met and which are not."""
    show(lines_of(ROUNDS, "dbos"), "DBOS")
    said = capsys.readouterr().out
    assert "3 of 4 targets met" in said
    assert "missed: W8 bytes on disk per step, one long run: 260 B, target ≤ 250" in said
    assert "1,006" in said  # a figure that only the peer has


def test_what_was_saved_makes_the_page(tmp_path: Path) -> None:
    """Promise: the page is made of the file alone: figures, spread, verdicts, and the profile of what is missed."""
    save(tmp_path / "results.json", {**FACTS, "profiles": {"W8": "where it goes", "W3": "unasked"}}, ROUNDS)
    page = render(load(tmp_path / "results.json"))
    assert (
        "| W1 | 1-step runs, async bodies | 400 runs/s | 100 – 900 | 10.0 | 40.0 | 10.0 – 90.0 | 0.50 | ≥ 40.0 × | ok |"
        in page
    )
    assert "3 of 4 targets are met." in page
    assert "where it goes" in page
    assert "unasked" not in page
    assert "DBOS 3.3" in page


def test_the_split_of_a_step_is_added_to_what_was_saved(tmp_path: Path) -> None:
    """Promise: the figures of the split stand in the file, not in the text; measured anew they leave the others."""
    path = tmp_path / "results.json"
    save(path, FACTS, ROUNDS)
    shares = {"ours": 0.5, "asyncio": 0.25}
    split = {
        "microseconds": {"W3": 200.0, "W1": 400.0},
        "shares": {"W3": shares, "W1": shares},
        "calls": {"run": 11, "files": 7, "step": 5},
        "hand_offs": {"locks": 12.0, "pipes": 6.5},
        "machine": "a machine",
    }
    save_more(path, "sqlite", {"split": split})
    page = render(load(path))
    assert "| asyncio | 25 % | 50.0 µs | 25 % | 100 µs |" in page
    assert "enter 11 in 7\nfiles, each further step 5." in page
    assert "12.0 µs of processor time by locks, as it is done, and 6.50 µs by pipes" in page
    assert "On a machine, SQLite:" in page
    assert "3 of 4 targets are met." in page


def test_results_of_stores_are_kept_beside_each_other(tmp_path: Path) -> None:
    """Promise: measuring one store leaves the figures of the other; the page has a section for each, and a table for
    each peer with targets of its own."""
    path = tmp_path / "results.json"
    save(path, FACTS, ROUNDS)
    versions = {**FACTS["versions"], "postgresql": "18", "absurd": "0.5"}
    rounds = {**ROUNDS, "absurd": {"W1.async": [80.0, 80.0, 80.0]}}
    save(path, {**FACTS, "store": "postgresql", "versions": versions}, rounds)
    page = render(load(path))
    before, _, after = page.partition("## On PostgreSQL")
    assert "SQLite 3." in before
    assert "≥ 40.0 ×" in before
    assert "PostgreSQL 18." in after
    assert "| 400 runs/s | 100 – 900 | 10.0 | 40.0 | 10.0 – 90.0 | 0.50 | ≥ 40.0 × | ok |" in after
    assert "| 400 runs/s | 100 – 900 | 80.0 | 5.00 | 1.25 – 11.2 | 0.50 | ≥ 8.00 × | missed |" in after
    assert "bytes on disk per step, one long run | 260 B" in after


def test_some_workloads_are_measured_again(tmp_path: Path) -> None:
    """Promise: measuring some workloads leaves the figures of the others, and the page says which are older. What is
    measured replaces all that was known of its workload."""
    path = tmp_path / "results.json"
    save(path, *beside_earlier({}, FACTS, ROUNDS))
    assert "earlier measurement" not in render(load(path))
    again = {"holdfast": {"W1.async": [700.0, 800.0, 900.0]}, "dbos": {"W1.async": [20.0, 20.0, 20.0]}}
    save(path, *beside_earlier(load(path), FACTS, again))
    rounds = load(path)["sqlite"]["rounds"]
    assert rounds["holdfast"]["W1.async"] == [700.0, 800.0, 900.0]
    assert "W1.sync" not in rounds["holdfast"]
    assert rounds["holdfast"]["W5.after"] == [1.0, 1.2, 0.8]
    page = render(load(path))
    assert "The figures of W5, W8 are of an earlier measurement." in page
    assert "| 800 runs/s | 700 – 900 | 20.0 | 40.0 | 35.0 – 45.0 |" in page


def test_the_page_is_the_rendering_of_the_results() -> None:
    """Promise: no figure on the page was typed by hand; `dev.py bench --render` makes it anew."""
    assert PAGE.read_text(encoding="utf-8") == render(load(RESULTS))


def test_workloads_are_chosen_by_name() -> None:
    """Promise: the order is ours, the raw limits come along, and a wrong name is named."""
    assert chosen(None) == list(NAMES)
    assert chosen("W4, W1") == ["raw", "W1", "W4"]
    with pytest.raises(SystemExit, match="no workload W77"):
        chosen("W77")


def test_a_cell_that_breaks_is_measured_once_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Promise: one broken process does not cost the run; a second one is told."""
    asked: list[tuple[str, ...]] = []

    def cell(arguments: tuple[str, ...]) -> dict[str, float]:
        asked.append(arguments)
        if len(asked) != 2:
            raise RuntimeError("ended early")
        return {"W1.async": 1.0}

    monkeypatch.setattr("benchmarks.__main__._cell", cell)
    assert measured("dbos", "W1") == {"W1.async": 1.0}
    assert "dbos W1: ended early; once more" in capsys.readouterr().err
    with pytest.raises(RuntimeError):
        measured("dbos", "W1")
    assert len(asked) == 4


def test_help_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    """Promise: every option is explained."""
    with pytest.raises(SystemExit):
        main(["--help"])
    said = capsys.readouterr().out
    assert all(word in said for word in ("--only", "--quick", "--profile", "--render", "--store"))


def test_peers_are_met_in_their_own_package_only() -> None:
    """Promise: the product never imports a peer, nor does anything else that runs without being asked for it."""
    packages = {peer.package for peers in PEERS.values() for peer in peers}
    found = [
        str(path.relative_to(ROOT))
        for folder in ("src", "benchmarks", "tests")
        for path in (ROOT / folder).rglob("*.py")
        if packages & _imported(path)
    ]
    assert found
    assert all(name.startswith("benchmarks/peers/with_") for name in found), found


def _imported(path: Path) -> set[str]:
    names: set[str] = set()
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)) if "dbos" in text else ():
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    return names
