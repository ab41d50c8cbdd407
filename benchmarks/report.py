"""Figures of several rounds as a table: on a terminal, as plain lines, as Markdown, as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.workloads import FIGURES, Figure

Rounds = Mapping[str, Sequence[float]]

HEADINGS = ("", "what", "median", "min – max", "× raw", "target", "")


@dataclass(frozen=True, slots=True)
class Line:
    """One figure over all rounds."""

    figure: Figure
    values: tuple[float, ...]
    raw: float | None

    @property
    def median(self) -> float:
        """What counts."""
        return median(self.values)

    @property
    def verdict(self) -> str:
        """Whether the target is reached."""
        match self.figure.is_reached(self.median):
            case None:
                return ""
            case True:
                return "ok"
            case False:
                return "MISSED" if self.figure.is_required else "not yet"

    def cells(self) -> tuple[str, ...]:
        """As text, in the order of `HEADINGS`."""
        figure = self.figure
        target = ""
        if figure.target is not None:
            target = f"{'≥' if figure.better == 'more' else '≤'} {shown(figure.target)}"
        return (
            figure.key.partition(".")[0],
            figure.title,
            f"{shown(self.median)} {figure.unit}",
            f"{shown(min(self.values))} – {shown(max(self.values))}",
            "" if self.raw is None else shown(self.raw),
            target,
            self.verdict,
        )


def lines_of(rounds: Rounds) -> list[Line]:
    """The figures that were measured, in the order of the table."""
    return [
        Line(figure, tuple(rounds[figure.key]), median(rounds[figure.vs_raw]) if figure.vs_raw in rounds else None)
        for figure in FIGURES
        if rounds.get(figure.key)
    ]


def shown(value: float) -> str:
    """With as many digits as mean something."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def show(lines: Sequence[Line]) -> None:
    """A table on a terminal, a line each in a pipe."""
    if not sys.stdout.isatty():
        for line in lines:
            print("\t".join(line.cells()))
        return
    table = Table(*HEADINGS, box=None, header_style="bold", pad_edge=False)
    for column in table.columns[2:6]:
        column.justify = "right"
    last = ""
    for line in lines:
        cells = line.cells()
        style = {"ok": "green", "MISSED": "bold red", "not yet": "yellow"}.get(line.verdict, "")
        if last not in {"", cells[0]}:
            table.add_section()
        table.add_row("" if cells[0] == last else cells[0], *cells[1:6], f"[{style}]{cells[6]}[/]" if style else "")
        last = cells[0]
    Console().print(table)


def markdown(lines: Sequence[Line], facts: Mapping[str, Any]) -> str:
    """The table for the docs."""
    machine, versions = facts["machine"], facts["versions"]
    head = (
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB, {machine['system']}; Python "
        f"{versions['python']}, SQLite {versions['sqlite']}. Medians of {facts['rounds']} rounds ({facts['scale']}). "
        "“× raw” is the ratio to 1-row commits of plain apsw on WAL with synchronous=FULL, taken just before and after;"
        " of a latency it is how many of them take as long."
    )
    rows = [
        f"| {' | '.join(HEADINGS)} |",
        "|---|---|---:|---:|---:|---:|---|",
        *(f"| {' | '.join(line.cells())} |" for line in lines),
    ]
    return "\n".join(["# Benchmark results", "", head, "", *rows, ""])


def save(path: Path, lines: Sequence[Line], facts: Mapping[str, Any], rounds: Rounds) -> None:
    """Everything, for programs."""
    figures = {
        line.figure.key: {
            "title": line.figure.title,
            "unit": line.figure.unit,
            "median": line.median,
            "rounds": list(line.values),
            "vs_raw": line.raw,
            "target": line.figure.target,
            "verdict": line.verdict,
        }
        for line in lines
    }
    others = {key: list(values) for key, values in rounds.items() if key not in figures}
    text = json.dumps({**facts, "figures": figures, "others": others}, indent=2, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
