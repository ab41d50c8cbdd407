"""Words that make a sentence hard to read, and docstrings that say nothing. See CONTRIBUTING, "Style".

A word list cannot judge English. It only keeps out the turns of phrase that were once in every second file here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.source import ROOT, parse, python_files, shown

INSTEAD = {
    r"whoever": "name it: the worker that, the caller that",
    r"so many": "that many, the maximum number of",
    r"(begin|begins|began|start|starts|counts|counted|made|make|makes) anew": "again, restart",
    r"mended": "fixed",
    r"go(es)? on(?! (a|the) )": "continue, resume",
    r"lets? go of": "release, close",
    r"(is|are) no \w+ of": "is not a … of",
    r"what (became|becomes) of": "the outcome of",
    r"(is|are|was|were) aboard": "is there, is held",
    r"(somebody|anybody)": "name it: another worker, a caller, a person",
    r"for ever": "forever",
    r"any more(?! of)": "no longer",
    r"\w+ of ours": "our, Holdfast's",
    r"whatever (becomes|became) of": "even if",
    r"(tells|speaks) of": "reports, names, is about",
    r"went away": "is gone, disappeared",
    r"(is|are) at hand": "is in memory, is there",
    r"of no use": "cannot be used, useless",
    r"stands? still": "is paused, is blocked",
    r"is it(self|s) own matter": "say what happens",
}
PATTERNS = {re.compile(rf"\b{words}\b", re.IGNORECASE): advice for words, advice in INSTEAD.items()}
EMPTY = {
    *("Nothing.", "Once more.", "And no longer.", "Likewise.", "The same.", "All of it.", "All of them.", "Refuses."),
    *(
        "Its engine.",
        "Its fold.",
        "Its program.",
        "Its address.",
        "No more beats.",
        "No more looks.",
        "No more trials.",
    ),
    *(
        "All kinds.",
        "One more.",
        "A body ended.",
        "Reports news.",
        "Adds news.",
        "Starts listening.",
        "Stops listening.",
    ),
}
NOUN = re.compile(r"=\{\}: (a |an |at least |at most |between |one of |how many |true or |letters|['\"])")
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "dev.py")
EXEMPT = {"specification.md", "reliability.md", "deviations.md", "migrations.py", "stream_tables.py"}
"""Generated pages that quote the documents they compare with, and SQL that was published and never changes."""


def odd_words(text: str) -> Iterator[tuple[int, str]]:
    """Line and advice for each odd turn of phrase."""
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, advice in PATTERNS.items():
            if found := pattern.search(line):
                yield number, f"{found[0]!r}: {advice}"


def empty_docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text of each docstring that says nothing."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            said = ast.get_docstring(node)
            if said in EMPTY:
                yield node.lineno, f"{said!r}: say what the caller needs, or leave it out"


def riddles(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text of each message that shows a value and then only a noun: it must begin with what to do."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            text = "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)  # type: ignore[misc]
            if NOUN.search(text):
                yield node.lineno, f"{text!r}: begin with a verb after the value: give, use, must be"


def pages() -> list[Path]:
    docs = list((ROOT / "docs").rglob("*.md"))
    sql = list((ROOT / "src").rglob("*.sql"))
    found = [*docs, *sql, *(ROOT / name for name in PAGES), *python_files("src", "examples", "benchmarks")]
    return sorted(path for path in found if path.name not in EXEMPT)


def test_no_page_or_source_has_an_odd_turn_of_phrase() -> None:
    """Contract: what people read uses the common word."""
    found = [
        f"{shown(path, line)} {problem}"
        for path in pages()
        for line, problem in odd_words(path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


def test_no_docstring_says_nothing() -> None:
    """Contract: a docstring adds something to the name."""
    found = [
        f"{shown(path, line)} {problem}"
        for path in python_files("src")
        for line, problem in empty_docstrings(parse(path))
    ]
    assert not found, "\n".join(found)


def test_a_message_about_a_value_says_what_to_give() -> None:
    """Contract: after the value an error begins with a verb, and is not a riddle such as "order=x: 'a' or 'b'"."""
    found = [f"{shown(path, line)} {problem}" for path in python_files("src") for line, problem in riddles(parse(path))]
    assert not found, "\n".join(found)


def test_a_riddle_is_found() -> None:
    assert list(riddles(ast.parse("f'order={order}: \\'a\\' or \\'b\\''")))
    assert not list(riddles(ast.parse("f'order={order}: use a'")))


@pytest.mark.parametrize(
    "line",
    [
        "whoever claims the run",
        "a run begins anew",
        "at most so many.",
        "let a paused run go on",
        "Foo is no state of it",
        "lets go of the connection",
        "a task of ours",
        "nothing waits for it any more",
        "somebody resumed it",
    ],
)
def test_an_odd_turn_of_phrase_is_found(line: str) -> None:
    assert list(odd_words(line))


@pytest.mark.parametrize(
    "line", ["a column goes on a separate line", "the run continues", "there is no state", "any more of them"]
)
def test_plain_words_are_left_alone(line: str) -> None:
    assert not list(odd_words(line))


def test_an_empty_docstring_is_found() -> None:
    assert list(empty_docstrings(ast.parse('def f():\n    """Once more."""')))
