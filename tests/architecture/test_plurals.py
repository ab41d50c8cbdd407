"""Messages that count: "1 run", never "1 runs". `core.plurals.counted` writes the number and its noun."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "holdfast"
NOUN = re.compile(
    r" (run|row|step|attempt|message|item|worker|thread|event|time|line|problem|warning|blob|slot|schedule|file|"
    r"process(?=es)|argument|turn|tree|workflow|function|branch(?=es)|session|token|value|definition|child(?=ren))(e?s|ren)\b"
)
NEVER_ONE = {
    "engine/committer.py": "len(commits)",  # one is said in other words
    "client/inspect/findings.py": "len(left)",
    "cli/commands/compact.py": "problems",
    "cli/commands/demo.py": "count",
    "core/suspicion.py": "count",
    "web/queries.py": "len(found)",
    "client/schedules.py": "most",  # the limit that was given
}
"""Counts that are written without `counted`, since they are not 1 there."""


def bare_counts(text: str) -> list[tuple[int, str, str]]:
    """Line, expression and noun of every count in a text of Python that would say "1 runs"."""
    found: list[tuple[int, str, str]] = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.JoinedStr):
            continue
        for value, after in zip(node.values, node.values[1:], strict=False):
            if not isinstance(value, ast.FormattedValue) or not isinstance(after, ast.Constant):
                continue
            noun = NOUN.match(str(after.value))
            shown = ast.unparse(value.value)
            before = node.values[node.values.index(value) - 1] if node.values.index(value) else None
            is_share = isinstance(before, ast.Constant) and str(before.value).endswith(" of ")
            if noun and not is_share and not shown.isupper() and not shown.split(".")[-1].isupper():
                found.append((value.lineno, shown, noun[0].strip()))
    return found


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_number_and_its_noun_agree(path: Path) -> None:
    """Promise: a reader of our messages never reads "1 runs"."""
    name = str(path.relative_to(SOURCE))
    wrong = [x for x in bare_counts(path.read_text(encoding="utf-8")) if NEVER_ONE.get(name) != x[1]]
    assert not wrong, f"{name}: write counted(…, noun) for {wrong}"


def test_every_exception_is_needed() -> None:
    """Promise: none is left over for the next message of that file."""
    for name, shown in NEVER_ONE.items():
        text = (SOURCE / name).read_text(encoding="utf-8")
        assert shown in [count for _, count, _ in bare_counts(text)], f"{name} has no such count any more"


def test_a_bare_count_is_found() -> None:
    assert bare_counts('f"{len(x)} runs match"') == [(1, "len(x)", "runs")]
    assert bare_counts('f"{done} of {total} items"; f"{counted(n, \'run\')} of it"; f"at most {MOST} runs"') == []
