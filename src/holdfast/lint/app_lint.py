"""An app's workflows, one after the other, and the helpers that their bodies call."""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.app import App
from holdfast.core.specs import WorkflowSpec
from holdfast.lint.function_source import definition_of, is_authors, line_of
from holdfast.lint.lint_finding import Finding, Rule
from holdfast.lint.visitor import Body

_ALLOWED = re.compile(r"#\s*holdfast:\s*allow\s+([\w, ]+)")
MOST_HELPERS = 1000
"""Maximum number of functions read for one workflow: far more than any real one has."""


@dataclass(frozen=True, slots=True)
class Report:
    """What was read, and what was found."""

    workflows: int
    functions: int
    findings: tuple[Finding, ...]
    unread: tuple[str, ...] = ()
    """Workflows without source."""


def lint(app: App) -> Report:
    """Reads the body of every workflow of an app, and the helpers of its own that it calls, for what does not replay.

    ``assert not lint(app).findings`` is a test. Allow a line that is right anyway with ``# holdfast: allow clock``.
    """
    return lint_specs(spec for spec in app.registry if not (spec.is_remote or spec.is_internal))


def lint_specs(specs: Iterable[WorkflowSpec]) -> Report:
    """The same for single definitions."""
    found: dict[tuple[str, int, int, Rule], Finding] = {}
    read: set[str] = set()
    unread: list[str] = []
    count = 0
    for spec in specs:
        count += 1
        unread += [spec.label for one in _replayed(spec) if not _read_through(spec.label, one, found, read)]
    return Report(count, len(read), tuple(sorted(found.values())), tuple(dict.fromkeys(unread)))


def _replayed(spec: WorkflowSpec) -> tuple[Callable[..., Any], ...]:
    return spec.replayed if spec.style else (spec.function,)


def _read_through(
    workflow: str,
    function: Callable[..., Any],
    found: dict[tuple[str, int, int, Rule], Finding],
    read: set[str],
) -> bool:
    """Reads a body and everything it calls. Returns False if it has no source."""
    waiting: deque[tuple[Callable[..., Any], tuple[str, ...]]] = deque([(function, ())])
    seen: set[Any] = {function.__code__}
    while waiting and len(seen) < MOST_HELPERS:
        one, through = waiting.popleft()
        definition = definition_of(one)
        if definition is None:
            if one is function:
                return False
            continue
        file = one.__code__.co_filename
        read.add(f"{file}:{one.__code__.co_firstlineno}")

        def tell(
            node: ast.AST, rule: Rule, what: str, instead: str, file: str = file, through: tuple[str, ...] = through
        ) -> None:
            line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0) + 1
            allowed = _ALLOWED.search(line_of(file, line))
            if allowed is None or rule not in re.split(r"[,\s]+", allowed.group(1).strip()):
                finding = Finding(_near(file), line, column, rule, what, instead, workflow, through)
                found.setdefault((file, line, column, rule), finding)

        body = Body(one, definition, tell)
        body.read()
        for helper in body.helpers:
            if helper.__code__ not in seen and is_authors(helper):
                seen.add(helper.__code__)
                waiting.append((helper, (*through, helper.__name__)))
    return True


def _near(file: str) -> str:
    """The path as a person would type it, if it is below the current folder."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except ValueError:
        return file
