"""One word per concept, and the constructs this project does without.

Names are judged where they are given (classes, functions, parameters, variables, modules), never where a library's
names are used. Each rule is a function of a parsed file, so that the last test can show it a file it must refuse.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.architecture.source import parse, python_files, shown, text_files

Found = Iterator[tuple[int, str]]

# The glossary's word for what other tools call otherwise. Words with an honest second meaning here (a database lock, an
# asyncio task, a clock offset, the park cache) cannot be judged by a program and are left to readers.
SYNONYMS = {
    "activities": "steps",
    "activity": "step",
    "canceled": "cancelled",
    "dag": "workflow",
    "dequeue": "claim",
    "job": "run",
    "jobs": "runs",
    "orchestrator": "worker",
    "phase": "status, or state",
    "pipeline": "workflow",
    "subflow": "child",
    "subworkflow": "child",
}
EMPTY_WORDS = {"base", "helper", "helpers", "info", "manager", "misc", "util", "utils"}
FOREIGN = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "sqlite3"}
EMPTY_VERBS = {"helper", "helpers", "manager", "util", "utils"}

SQL = re.compile(
    r"^\s*(select\s.+\sfrom\b|insert\s+(or\s+\w+\s+)?into\b|update\s+[\w?.]+\s+(as\s+\w+\s+)?set\b|delete\s+from\b"
    r"|(create|drop|alter)\s+(unique\s+)?(table|index|view|trigger)\b|with\s+\w+(\s*\(.*\))?\s+as\s*\()",
    re.IGNORECASE | re.DOTALL,
)
MACHINE_PATHS = re.compile(r"(?<![\w.])/(?:root|work|home/\w+|Users/\w+)/(?=\w)")


def words(name: str) -> list[str]:
    """`StepHTTPManager` and `step_http_manager` are step, http, manager."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def names_given(tree: ast.Module) -> Iterator[tuple[int, str, type[ast.AST]]]:
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name, type(node)
            case ast.arg(arg=name):
                yield node.lineno, name, ast.arg
            case ast.Name(id=name, ctx=ast.Store()):
                yield node.lineno, name, ast.Name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name, ast.Attribute
            case _:
                pass


def synonyms(tree: ast.Module) -> Found:
    for line, name, _ in names_given(tree):
        for word in words(name):
            if word in SYNONYMS:
                yield line, f"{name}: the word here is {SYNONYMS[word]}"


def empty_words(tree: ast.Module) -> Found:
    for line, name, kind in names_given(tree):
        banned = EMPTY_WORDS if kind is ast.ClassDef else EMPTY_VERBS
        if kind in {ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef} and (empty := banned & set(words(name))):
            yield line, f"{name}: {', '.join(sorted(empty))} says nothing; name what it does"


def called(node: ast.AST) -> str:
    """`time.sleep` for `time.sleep(1)`, else nothing."""
    return dotted(node.func) if isinstance(node, ast.Call) else ""


def dotted(node: ast.expr) -> str:
    """`a.b.c` for names and attributes of them; empty for any other expression."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            return f"{dotted(value)}.{name}"
        case _:
            return ""


def imported(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=str(module), level=0, names=names):
            return [module, *(f"{module}.{alias.name}" for alias in names)]
        case _:
            return []


def code_from_data(tree: ast.Module) -> Found:
    for node in ast.walk(tree):
        if called(node) in {"eval", "exec", "builtins.eval", "builtins.exec"}:
            yield getattr(node, "lineno", 0), f"{called(node)}: nothing here runs text"
        for name in imported(node):
            if name.split(".")[0] in FOREIGN:
                yield getattr(node, "lineno", 0), f"import of {name}"


def sleeping(tree: ast.Module) -> Found:
    for node in ast.walk(tree):
        if called(node) == "time.sleep" or "time.sleep" in imported(node):
            yield getattr(node, "lineno", 0), "time.sleep: wait for what is needed, or move the clock"


def printing(tree: ast.Module) -> Found:
    for node in ast.walk(tree):
        if called(node) in {"print", "pprint", "pprint.pprint"}:
            yield getattr(node, "lineno", 0), "print: a library logs"


def literal_start(node: ast.AST) -> str:
    """The constant text of a string that is put together at run time, or nothing if it is a plain one."""
    match node:
        case ast.JoinedStr(values=values) if any(isinstance(value, ast.FormattedValue) for value in values):
            return "".join(str(part.value) if isinstance(part, ast.Constant) else "?" for part in values)
        case ast.BinOp(left=ast.Constant(value=str(text)), op=ast.Mod() | ast.Add()):
            return text
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format")):
            return text
        case _:
            return ""


def built_sql(tree: ast.Module) -> Found:
    for node in ast.walk(tree):
        if SQL.match(literal_start(node)):
            yield getattr(node, "lineno", 0), "SQL put together from strings: name the statement and bind its values"


Rule = Callable[[ast.Module], Found]
RULES: list[tuple[Rule, tuple[str, ...]]] = [
    (synonyms, ("src", "examples")),
    (empty_words, ("src", "examples", "benchmarks")),
    (code_from_data, ("src", "tests", "examples", "benchmarks")),
    (sleeping, ("tests",)),
    (printing, ("src",)),
    (built_sql, ("src",)),
]
HINTS: dict[Rule, re.Pattern[str]] = {
    synonyms: re.compile("|".join(SYNONYMS), re.IGNORECASE),
    empty_words: re.compile("|".join(EMPTY_WORDS), re.IGNORECASE),
    code_from_data: re.compile(rf"\b(eval|exec|builtins|{'|'.join(sorted(FOREIGN))})\b"),
    sleeping: re.compile("sleep"),
    printing: re.compile("print"),
    built_sql: re.compile(r"[\"'](\\[nrt\n]|\s)*(select|insert|update|delete|create|drop|alter|with)\b", re.IGNORECASE),
}
"""What the text of a file must hold for a rule to find something in it: the others need not be parsed for it."""
EXEMPT: dict[Rule, tuple[str, ...]] = {
    printing: ("src/holdfast/cli/",),
    sleeping: ("tests/lab/lint/mistakes.py",),  # read, never run
}


def test_the_rules_hold() -> None:
    """Contract: no file breaks one; what would have to be exempt is written above. One test, so that one process parses
    the sources, and not each of those that share the work."""
    found = [
        f"{rule.__name__}: {shown(path, line)} {problem}"
        for path in python_files(*sorted({folder for _, folders in RULES for folder in folders}))
        for rules in [rules_for(path)]
        if rules
        for tree in [parse(path)]
        for rule in rules
        for line, problem in rule(tree)
    ]
    assert not found, "\n".join(found)


def rules_for(path: Path) -> list[Rule]:
    """The rules that hold for a file and could find something in it."""
    name, text = shown(path), path.read_text(encoding="utf-8")
    return [
        rule
        for rule, folders in RULES
        if name.startswith(tuple(f"{folder}/" for folder in folders))
        if not name.startswith(EXEMPT.get(rule, ("\0",)))
        if HINTS[rule].search(text)
    ]


def test_modules_have_telling_names() -> None:
    """Contract: no module is called after nothing in particular, nor by another tool's word."""
    banned = EMPTY_WORDS | set(SYNONYMS)
    found = [shown(path) for path in python_files("src") if banned & set(words(path.stem))]
    assert not found


def machine_paths(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [shown(path, number) for number, line in enumerate(lines, 1) if MACHINE_PATHS.search(line)]


def test_no_file_names_a_place_on_somebodys_machine() -> None:
    """Contract: a clone works anywhere."""
    assert not [place for path in text_files() for place in machine_paths(path)]


@pytest.mark.parametrize(
    ("rule", "source"),
    [
        (synonyms, "def start_job(): ..."),
        (synonyms, "class ChargeActivity: ..."),
        (synonyms, "def f(dag): ..."),
        (synonyms, "self.current_phase = 1"),
        (synonyms, "is_canceled: bool = True"),
        (empty_words, "class RunManager: ..."),
        (empty_words, "class StoreBase: ..."),
        (empty_words, "class RunInfo: ..."),
        (empty_words, "async def claim_helper(): ..."),
        (code_from_data, "def f():\n    from pickle import loads"),
        (code_from_data, "eval(text)"),
        (code_from_data, "import sqlite3.dbapi2"),
        (sleeping, "import time\ntime.sleep(1)"),
        (sleeping, "from time import sleep"),
        (printing, "print(1)"),
        (built_sql, "q = f'select * from {table}'"),
        (built_sql, "q = 'DELETE FROM runs WHERE id = %s' % run"),
        (built_sql, "q = 'update runs set x = ' + value"),
        (built_sql, "q = 'insert into runs values ({})'.format(row)"),
        (built_sql, "q = f'with due as (select {column} from runs) select 1 from due'"),
    ],
)
def test_a_planted_fault_is_found(rule: Rule, source: str) -> None:
    """Contract: each rule can fail."""
    assert HINTS[rule].search(source)
    assert list(rule(ast.parse(source)))


@pytest.mark.parametrize(
    ("rule", "source"),
    [
        (synonyms, "from asyncio import Task\ntask = Task(dag.job())"),
        (empty_words, "def base_url(info): ..."),
        (built_sql, "raise E(f'update the workflow {name} or set it aside')"),
        (built_sql, "q = 'select id from runs where id = ?'"),
        (sleeping, "await asyncio.sleep(0)"),
    ],
)
def test_an_innocent_line_is_left_alone(rule: Rule, source: str) -> None:
    assert not list(rule(ast.parse(source)))


def test_a_planted_path_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("see\n`/" + "home/somebody/notes`\n")
    assert machine_paths(page) == [f"{page}:2"]
    page.write_text("src/" + "work/x and https://example.org/" + "work/y")
    assert not machine_paths(page)
