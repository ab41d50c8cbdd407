"""Which tests depend on more than their code: they start processes, talk to servers, or read a real clock.

This is read from the sources. A test file counts if it, a `conftest.py` above it, or a module of the tests that it
imports uses one of these names. The first `conftest.py` does not count: it measures every test.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from tests.command.changed import needed_for, users_of

SIGNS = {
    "processes": {"subprocess", "multiprocessing", "concurrent.futures", "signal", "os.fork", "tests.support.warm"},
    "servers": {"socket", "http.server", "uvicorn", "tests.support.shared_server"},
    "clocks": {"time", "threading", "select", "asyncio.sleep", "asyncio.timeout", "asyncio.wait", "asyncio.wait_for"},
}
"""Modules and functions that bring in the machine, by what they bring. Threads and waits count as clocks."""

OURS = ("tests/", "benchmarks/", "examples/")
EVERYWHERE = "tests/conftest.py"


def selection(texts: Mapping[str, str]) -> dict[str, set[str]]:
    """The test files among these sources that depend on the machine, in order, each with the reasons."""
    ours = {path: text for path, text in texts.items() if path.startswith(OURS) and path != EVERYWHERE}
    names = {path: set(names_in(text)) for path, text in ours.items()}
    users = users_of(ours, with_strings=False)
    found: dict[str, set[str]] = {}
    for reason, signs in SIGNS.items():
        for path in needed_for([path for path in ours if names[path] & signs], ours, users):
            found.setdefault(path, set()).add(reason)
    return dict(sorted(found.items()))


def names_in(text: str) -> Iterator[str]:
    """The modules a file imports and the attributes it uses, such as `asyncio.sleep`."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield f"{node.value.id}.{node.attr}"
