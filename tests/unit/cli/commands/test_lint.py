"""`holdfast lint`: what it prints, and how it ends."""

from __future__ import annotations

from tests.unit.cli.conftest import Cli

UNFAIR = """
import random
from holdfast import App, workflow

@workflow
async def unfair(name: str) -> str:
    return name + str(random.random())

app = App("memory://", workflows=[unfair])
"""


def test_a_clean_app_ends_with_0(cli: Cli) -> None:
    """Contract: a sentence of what was read; as JSON the whole report."""
    assert cli.ok("lint", "shop:app").endswith("nothing found\n")
    report = cli("lint", "shop:app", "--json").json
    assert report["findings"] == []
    assert report["workflows"] > 3


def test_a_mistake_is_shown_with_its_place_and_its_cure(cli: Cli) -> None:
    """Contract: file:line:column, the rule, the workflow and what to write instead; exit code 1."""
    (cli.folder / "unfair.py").write_text(UNFAIR, encoding="utf-8")
    answer = cli("lint", "unfair:app")
    assert answer.code == 1
    assert "unfair.py:7:23 [chance]" in answer.out
    assert "random.random(…) in a workflow body, in unfair" in answer.out
    assert "holdfast.rng()" in answer.out
    (finding,) = cli("lint", "unfair:app", "--json").json["findings"]
    assert (finding["line"], finding["column"], finding["rule"]) == (7, 23, "chance")


def test_an_app_that_is_not_there_is_a_sentence(cli: Cli) -> None:
    """Contract: as for every command that takes an app."""
    answer = cli("lint", "nowhere:app")
    assert answer.code == 1
    assert "nowhere" in answer.error
