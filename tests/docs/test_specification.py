"""Every row of behaviour owed is shown by a named test, or stands with the decision that replaces it."""

from __future__ import annotations

import ast
import os
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.docs.deviations import DEVIATIONS
from tests.docs.specification import DECISIONS, ROWS
from tests.support.heap import without_collector

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "specification.md"
DIFFERENCES = ROOT / "docs" / "explanation" / "deviations.md"
UPDATE = "HOLDFAST_UPDATE_SNAPSHOTS"


def marked(path: Path) -> Iterator[tuple[str, str]]:
    """(row, test) for every `pytest.mark.spec(…)`, or `shows(…)` of a shipped suite, in a file."""
    text = path.read_text(encoding="utf-8")
    if "spec(" not in text and "shows(" not in text:
        return
    with without_collector():
        tree = ast.parse(text)
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) in {"pytest.mark.spec", "shows"}:
                for argument in decorator.args:
                    yield ast.literal_eval(argument), f"{path.relative_to(ROOT)}::{node.name}"


@cache
def shown() -> dict[str, list[str]]:
    """Row → the tests that show it."""
    found: dict[str, list[str]] = defaultdict(list)
    suites = (ROOT / "src/holdfast/testing/conformance").glob("*.py")
    for path in [*sorted(suites), *sorted((ROOT / "tests").rglob("test_*.py"))]:
        for row, test in marked(path):
            found[row].append(test)
    return found


def page() -> str:
    """The table, as the docs hold it."""
    tests = shown()
    lines = [
        "# How each promise is shown",
        "",
        "Row by row: what Holdfast owes, and the test that fails when it is broken, or the decision that replaces it.",
        "Generated from the tests (`tests/docs/specification.py`).",
        "",
        "| row | behaviour | shown by |",
        "|---|---|---|",
    ]
    for row in {**ROWS, **DECISIONS}:
        entries = [f"`{test}`" for test in tests.get(row, [])]
        if row in DECISIONS:
            entries.insert(0, f"*decision:* {DECISIONS[row]}")
        behaviour = ROWS[row] if row in ROWS else f"*not followed:* {DEVIATIONS[row].said}"
        lines.append(f"| {row} | {behaviour} | {'<br>'.join(entries)} |")
    return "\n".join(lines) + "\n"


def deviations() -> str:
    """Every statement of the sources that is not followed, with the decision."""
    lines = [
        "# Where Holdfast differs from its sources",
        "",
        "Holdfast started from the documents of five systems: OpenWorkflow, Vectorbea, Stepflow, Stem and Cano. This",
        "page lists every statement of theirs that Holdfast does not follow, what it does instead, and why. It is",
        "generated from `tests/docs/deviations.py`. [The table of promises](specification.md) names the tests.",
        "",
        "| row | they say | Holdfast |",
        "|---|---|---|",
        *(f"| {row} | {deviation.said} | {deviation.instead} |" for row, deviation in DEVIATIONS.items()),
    ]
    return "\n".join(lines) + "\n"


def test_every_deviation_stands_on_one_page() -> None:
    """Promise: a reader finds every statement that is not followed, what is done instead, and why."""
    assert not [row for row, (said, instead) in DEVIATIONS.items() if len(said.split()) < 3 or len(instead.split()) < 4]
    if os.environ.get(UPDATE):
        DIFFERENCES.write_text(deviations())
    assert DIFFERENCES.read_text() == deviations(), f"renew the page with {UPDATE}=1"


def test_every_row_is_shown_by_a_test_or_stands_with_a_decision() -> None:
    """Promise: nothing owed is forgotten."""
    tests = shown()
    missing = [row for row in ROWS if row not in tests and row not in DECISIONS]
    assert not missing, f"no test is marked with: {', '.join(missing)}"


def test_no_test_names_a_row_that_does_not_exist() -> None:
    """Promise: a typo in a marker is found."""
    unknown = {row: tests for row, tests in shown().items() if row not in ROWS and row not in DECISIONS}
    assert not unknown


def test_the_page_is_what_the_tests_say() -> None:
    """Promise: the table in the docs is current; HOLDFAST_UPDATE_SNAPSHOTS=1 writes it."""
    if os.environ.get(UPDATE):
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(page())
    assert PAGE.read_text() == page(), f"out of date: run the tests once with {UPDATE}=1"
