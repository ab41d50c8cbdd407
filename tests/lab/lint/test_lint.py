"""The determinism lint: what it finds of forty mistakes, and what it says of code that is right."""

from __future__ import annotations

import re
from typing import Any

from benchmarks import program
from holdfast import workflow
from holdfast.cli.demo import demo_app
from holdfast.lint import lint
from holdfast.lint.lint_finding import SUMMARIES
from tests.lab.levels import Effort
from tests.lab.lint import machines, mistakes, right
from tests.lab.lint.campaign import linted, marked, report_of

FEWEST = 40


def test_every_seeded_mistake_is_found(record_property: Any) -> None:
    """Promise: each of at least forty mistakes is reported on its line, under its rule."""
    wanted = marked()
    assert len(mistakes.WORKFLOWS) >= FEWEST
    assert set(wanted.values()) == set(SUMMARIES)
    found = {(finding.line, finding.rule) for finding in report_of(mistakes.WORKFLOWS).findings}
    missed = {place for place in wanted.items() if place not in found}
    record_property("figure", f"lint: {len(wanted) - len(missed)} of {len(wanted)} seeded mistakes found")
    assert not missed
    assert found == set(wanted.items())


def test_the_level_has_the_figures() -> None:
    """Promise: the lab counts the same corpora, and finds nothing wrong."""
    report = linted(Effort())
    assert not report.problems
    assert report.figures["mistakes found"] == report.figures["mistakes looked for"] == len(marked())
    assert report.figures["false alarms"] == 0


def test_what_is_right_raises_no_alarm(record_property: Any) -> None:
    """Promise: workflows that replay are left in peace, however much they look like mistakes."""
    report = report_of(right.WORKFLOWS)
    record_property("figure", f"lint: {len(report.findings)} false alarms in {report.workflows} correct workflows")
    assert not [str(finding) for finding in report.findings]
    assert report.workflows == len(right.WORKFLOWS)
    assert report.functions > report.workflows  # helpers were read too


def test_a_finding_names_place_cure_and_way() -> None:
    """Promise: file, line and column; what it is; what to write; and through which helpers it is reached."""
    (finding,) = report_of([mistakes.through_a_helper]).findings
    text = str(finding)
    assert re.match(r"tests/lab/lint/mistakes\.py:\d+:\d+: \[clock\]", text) or "mistakes.py:" in text
    assert "datetime.now(…)" in text
    assert "through_a_helper → stamped" in text
    assert "holdfast.now()" in text


def test_source_that_is_not_there_is_said() -> None:
    """Promise: a body that cannot be read is named, not passed over."""

    async def ghost(order: str) -> str:
        return order

    ghost.__code__ = ghost.__code__.replace(co_filename="/nowhere/ghost.py")
    assert report_of([workflow(ghost)]).unread == ("ghost",)


def test_of_machines_only_what_is_replayed_is_read() -> None:
    """Promise: bodies of states are steps and may read clocks; routers and scripts are replayed and may not."""
    found = report_of([machines.parcel]).findings
    assert [(finding.rule, finding.workflow) for finding in found] == [("clock", "parcel")]


def test_what_we_show_people_is_clean() -> None:
    """Promise: the workflow of the demo passes; our own benchmark is caught noting the time in a class."""
    assert not lint(demo_app.app).findings
    assert {finding.rule for finding in report_of([program.blocked]).findings} == {"clock", "globals"}
