"""What the lint reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Rule: TypeAlias = Literal[
    "clock", "chance", "environment", "io", "threads", "identity", "sets", "unawaited", "globals", "cancellation"
]

SUMMARIES: dict[Rule, str] = {
    "clock": "the time read in a workflow body",
    "chance": "random numbers and ids drawn in a workflow body",
    "environment": "the process and its machine asked in a workflow body",
    "io": "files, network, processes and standard input used in a workflow body",
    "threads": "threads, processes and pools started in a workflow body",
    "identity": "addresses and hashes used in a workflow body",
    "sets": "a set iterated: its order differs from process to process",
    "unawaited": "a step, child or wait that is never awaited",
    "globals": "module-level or captured state changed in a workflow body",
    "cancellation": "a cancellation caught and not passed on",
}
"""One line for each rule."""


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One place in a workflow's body that does not replay, and what to write instead."""

    file: str
    line: int
    column: int
    rule: Rule
    what: str
    instead: str
    workflow: str
    through: tuple[str, ...] = ()
    """The helpers between the workflow and the function it is in."""

    def __str__(self) -> str:
        path = f" (called by {' → '.join((self.workflow, *self.through))})" if self.through else ""
        return f"{self.file}:{self.line}:{self.column}: [{self.rule}] {self.what}{path}: {self.instead}"
