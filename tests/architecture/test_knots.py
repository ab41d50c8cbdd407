"""No knots: modules that know each other in a circle are one idea in several files, or several ideas in each.

Imports for types alone count too. Two modules may know each other; the façade, which names everything, is left out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.architecture.source import PACKAGE, parse, python_files

MOST = 2
"""Modules that may know each other."""


def modules() -> dict[str, Path]:
    """Every module but the façade, by name."""
    names = {_name(path): path for path in python_files("src")}
    return {name: path for name, path in names.items() if name != "holdfast"}


def _name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def imported(tree: ast.Module, known: Mapping[str, object]) -> Iterator[str]:
    """The modules that a module imports, wherever and whatever for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found = inner if inner in known else node.module
                if found in known:
                    yield found


def knots(graph: Mapping[str, frozenset[str]]) -> list[frozenset[str]]:
    """Sets of modules that reach each other, of more than `MOST`."""
    reached = {name: _reached(name, graph) for name in graph}
    found = {frozenset(x for x in reached[name] if name in reached[x]) | {name} for name in graph}
    return sorted((knot for knot in found if len(knot) > MOST), key=len)


def _reached(name: str, graph: Mapping[str, frozenset[str]]) -> set[str]:
    seen: set[str] = set()
    ahead = list(graph[name])
    while ahead:
        one = ahead.pop()
        if one not in seen:
            seen.add(one)
            ahead.extend(graph[one])
    return seen


def test_no_knots() -> None:
    """Contract: at most two modules know each other."""
    known = modules()
    graph = {name: frozenset(imported(parse(path), known)) - {name} for name, path in known.items()}
    found = knots(graph)
    assert not found, f"modules that all know each other: {[sorted(knot) for knot in found]}"


def test_a_knot_is_found() -> None:
    """Contract: three in a circle are a knot, also by an import for types; two are not."""
    source = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.b import B\nimport p.c\n"
    known = {"p.a": 0, "p.b": 0, "p.c": 0}
    assert set(imported(ast.parse(source), known)) == {"p.b", "p.c"}
    circle = {
        "p.a": frozenset({"p.b"}),
        "p.b": frozenset({"p.c"}),
        "p.c": frozenset({"p.a"}),
        "p.d": frozenset({"p.a"}),
    }
    assert knots(circle) == [frozenset({"p.a", "p.b", "p.c"})]
    assert knots({"p.a": frozenset({"p.b"}), "p.b": frozenset({"p.a"})}) == []
