"""The lab as a program: levels are found, an empty campaign fails, figures become a page."""

from __future__ import annotations

import json

import pytest

from tests.lab import __main__ as lab
from tests.lab.levels import Effort, Level, Report, levels
from tests.lab.page import page_of


def test_the_levels_are_found() -> None:
    hits = {"simulation", "crash points", "properties", "disk faults", "power cuts", "chaos"}
    assert hits | {"sweeps", "lint", "mutants"} <= set(levels())


def test_an_unknown_level_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert lab.main(["--only", "simulatoin"]) == 2
    assert "there are simulation" in capsys.readouterr().out


def test_a_campaign_that_never_met_something_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: a campaign in which nothing was ever fenced proves nothing, and says so."""
    report = Report(figures={"seeds": 3}, sometimes={"fenced append": 0, "takeover": 4})
    assert lab.problems_of(report) == ["never met: fenced append. A campaign without it proves nothing"]
    monkeypatch.setattr(lab, "levels", lambda: {"empty": Level("empty", "nothing", lambda effort: report, 1)})
    assert lab.main([]) == 1


def test_effort_is_shared_by_time() -> None:
    assert Effort(seconds=0).is_over
    assert not Effort(seconds=1000).is_over
    assert not Effort().is_over


def test_a_page_shows_every_figure() -> None:
    report = Report(figures={"seeds": 12_345}, sometimes={"takeover": 2})
    shown = lab.figures_of(Level("simulation", "one seed after another", lambda effort: report, 1), report)
    page = page_of(json.loads(json.dumps({"command": "python3 dev.py lab", "levels": {"simulation": shown}})))
    assert "| seeds | 12,345 |" in page
    assert "| *sometimes:* takeover | 2 |" in page
    assert "| **problems** | **0** |" in page
