"""The lab as a program: levels are found, an empty campaign fails, figures become a page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.lab import __main__ as lab
from tests.lab.levels import Effort, Level, Report, levels
from tests.lab.page import page_of


def test_the_levels_are_found() -> None:
    hits = {
        "simulation",
        "crash points",
        "properties",
        "damage",
        "disk faults",
        "power cuts",
        "crowds",
        "bits",
        "chaos",
    }
    assert hits | {"sweeps", "lint", "mutants", "flakes"} <= set(levels())


def test_an_unknown_level_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert lab.main(["--only", "simulatoin"]) == 2
    assert "there are simulation" in capsys.readouterr().out


def test_a_campaign_that_never_met_something_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: a campaign in which nothing was ever fenced proves nothing, and says so."""
    report = Report(figures={"seeds": 3}, sometimes={"fenced append": 0, "takeover": 4})
    assert lab.problems_of(report) == ["never met: fenced append. A campaign without it proves nothing"]
    assert lab.problems_of(report, is_whole=False) == []
    monkeypatch.setattr(lab, "levels", lambda: {"empty": Level("empty", "nothing", lambda effort: report, 1)})
    assert lab.main([]) == 1


def test_a_level_that_takes_hours_runs_only_when_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def run(effort: Effort) -> Report:
        ran.append(" ".join(effort.for_pytest))
        return Report()

    known = {"short": Level("short", "", run, 1), "flakes": Level("flakes", "", run, 1, on_request=True)}
    monkeypatch.setattr(lab, "levels", lambda: known)
    assert lab.main([]) == 0
    assert ran == [""]
    assert lab.main(["--only", "flakes", "--", "tests/chaos"]) == 0
    assert ran == ["", "tests/chaos"]


def test_effort_is_shared_by_time() -> None:
    assert Effort(seconds=0).is_over
    assert not Effort(seconds=1000).is_over
    assert not Effort().is_over


def test_a_level_that_was_run_anew_takes_its_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Promise: with --only the figures of the other levels stay, and the page says how each was run."""
    path = tmp_path / "reliability.json"
    monkeypatch.setattr(lab, "FIGURES", path)
    whole = lab.merged("python3 dev.py lab", {name: _figures(name, 1) for name in ("a", "b")}, [])
    assert whole == lab.merged("python3 dev.py lab", whole["levels"], ["a", "b"])  # there is nothing to merge with
    path.write_text(json.dumps(whole))
    again = lab.merged("python3 dev.py lab --only b", {"b": _figures("b", 2)}, ["b"])
    assert [level["figures"]["seeds"] for level in again["levels"].values()] == [1, 2]
    page = page_of(again)
    assert page.count("Run by itself: `python3 dev.py lab --only b`.") == 1
    assert page.index("## B") < page.index("Run by itself")


def _figures(name: str, seeds: int) -> dict[str, object]:
    report = Report(figures={"seeds": seeds})
    return lab.figures_of(Level(name, "one seed after another", lambda effort: report, 1), report)


def test_a_page_shows_every_figure() -> None:
    report = Report(figures={"seeds": 12_345}, sometimes={"takeover": 2})
    shown = lab.figures_of(Level("simulation", "one seed after another", lambda effort: report, 1), report)
    page = page_of(json.loads(json.dumps({"command": "python3 dev.py lab", "levels": {"simulation": shown}})))
    assert "| seeds | 12,345 |" in page
    assert "| *sometimes:* takeover | 2 |" in page
    assert "| **problems** | **0** |" in page
