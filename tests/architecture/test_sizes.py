"""Files have at most 400 lines, test files 500, functions 60; what grows past that holds two ideas."""

from __future__ import annotations

import ast

import pytest

from tests.architecture.source import parse, python_files, shown

FILE_LINES = 400
TEST_FILE_LINES = 500
FUNCTION_LINES = 60


def long_functions(tree: ast.Module) -> list[tuple[int, str, int]]:
    """(line, name, length) of each function that is too long, its docstring counted."""
    found: list[tuple[int, str, int]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES:
                found.append((node.lineno, node.name, length))
    return found


@pytest.mark.parametrize(
    ("folder", "most"), [("src", FILE_LINES), ("benchmarks", FILE_LINES), ("tests", TEST_FILE_LINES)]
)
def test_no_file_is_too_long(folder: str, most: int) -> None:
    """Contract: a reader can hold a file in mind."""
    sizes = {shown(path): len(path.read_text(encoding="utf-8").splitlines()) for path in python_files(folder)}
    found = {name: size for name, size in sizes.items() if size > most}
    assert not found, f"over {most} lines, probably two ideas: {found}"


@pytest.mark.parametrize("folder", ["src", "benchmarks", "tests"])
def test_no_function_is_too_long(folder: str) -> None:
    """Contract: a reader can hold a function on a screen."""
    found = [
        f"{shown(path, line)} {name}: {length} lines"
        for path in python_files(folder)
        for line, name, length in long_functions(parse(path))
    ]
    assert not found, f"over {FUNCTION_LINES} lines: {found}"


def test_a_long_function_is_found() -> None:
    body = "\n".join(f"    x{number} = {number}" for number in range(FUNCTION_LINES))
    assert long_functions(ast.parse(f"def f():\n{body}\n")) == [(1, "f", FUNCTION_LINES + 1)]
    prose = "word\n" * FUNCTION_LINES
    assert long_functions(ast.parse(f'def f():\n    """{prose}"""\n')) == [(1, "f", FUNCTION_LINES + 2)]
