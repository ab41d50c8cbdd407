"""What the architecture tests read: the project's files, parsed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.heap import without_collector

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
PACKAGE = SRC / "holdfast"

FOLDERS = ("src", "tests", "docs", "examples", "benchmarks", ".ci")
TEXT = set(".cfg .css .html .json .md .py .pyi .sh .sql .toml .ts .tsx .txt .typed .yaml .yml".split()) | {""}


def python_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def text_files() -> Iterator[Path]:
    """Every text file that belongs to the project; caches, environments and builds do not."""
    roots = [
        path for path in ROOT.iterdir() if path.is_file() and path.name not in {".coverage", ".git"}
    ]  # the latter: a worktree
    nested = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    for path in sorted(roots + nested):
        if path.suffix in TEXT and "__pycache__" not in path.parts and "node_modules" not in path.parts:
            yield path


def parse(path: Path) -> ast.Module:
    """The file's tree. Nothing keeps it: all trees together are over a million objects, which every later garbage
    collection of the process would have to go through."""
    with without_collector():
        return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def shown(path: Path, line: int = 0) -> str:
    """`src/holdfast/app.py:12`: what an editor opens with a click."""
    name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
    return f"{name}:{line}" if line else name
