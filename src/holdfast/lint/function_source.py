"""From a function to its source, as a tree with the line numbers of the file."""

from __future__ import annotations

import ast
import functools
import linecache
import site
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any, TypeAlias

from holdfast.authoring.script.functions import is_a

Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

OURS = str(Path(__file__).resolve().parents[2])


@functools.cache
def _tree(file: str) -> ast.Module | None:
    lines = linecache.getlines(file)
    try:
        return ast.parse("".join(lines), file) if lines else None
    except SyntaxError:
        return None


def definition_of(function: Callable[..., Any]) -> Definition | None:
    """The tree of a function's definition; None if it has no source."""
    code = function.__code__ if is_a(function, FunctionType) else None
    tree = _tree(code.co_filename) if code is not None else None
    if code is None or tree is None:
        return None
    for node in ast.walk(tree):
        if isinstance(node, Definition) and node.name == code.co_name:
            first = node.decorator_list[0].lineno if node.decorator_list else node.lineno
            if first == code.co_firstlineno:
                return node
    return None


def line_of(file: str, line: int) -> str:
    return linecache.getline(file, line)


def is_authors(function: Callable[..., Any]) -> bool:
    """Whether a function belongs to the app's author: it is neither Python's, nor an installed package's, nor ours."""
    return is_a(function, FunctionType) and not function.__code__.co_filename.startswith(_foreign())


@functools.cache
def _foreign() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return (OURS, paths["stdlib"], paths["platstdlib"], paths["purelib"], *site.getsitepackages(), "<")
