"""The determinism lint as a level: what it finds of the seeded mistakes, what it says of code that is right."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from holdfast import App
from holdfast.lint import Report as LintReport
from holdfast.lint import lint
from holdfast.lint.lint_finding import SUMMARIES
from tests.lab.levels import Effort, Report, level
from tests.lab.lint import mistakes, right

MARK = re.compile(r"  # (" + "|".join(SUMMARIES) + r")\b")


def report_of(workflows: list[Any]) -> LintReport:
    """What the lint says of these."""
    return lint(App("memory://", workflows=workflows))


def marked() -> dict[int, str]:
    """The lines of the corpus with the rule that is to find each."""
    lines = Path(mistakes.__file__).read_text(encoding="utf-8").splitlines()
    return {number: found.group(1) for number, line in enumerate(lines, 1) if (found := MARK.search(line))}


@level("lint", "the determinism lint: mistakes found, false alarms", share=0.1)
def linted(effort: Effort) -> Report:
    """Always the whole of both corpora: it takes no time."""
    wanted = set(marked().items())
    found = {(finding.line, finding.rule) for finding in report_of(mistakes.WORKFLOWS).findings}
    alarms = report_of(right.WORKFLOWS).findings
    return Report(
        figures={
            "mistakes looked for": len(wanted),
            "mistakes found": len(wanted & found),
            "right workflows": len(right.WORKFLOWS),
            "false alarms": len(alarms),
        },
        sometimes={"a mistake was found": len(wanted & found)},
        problems=[
            *(f"the lint does not find [{rule}] in line {line} of its corpus" for line, rule in sorted(wanted - found)),
            *(f"a false alarm of the lint: {alarm}" for alarm in alarms),
        ],
    )
