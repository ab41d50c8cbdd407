"""Figures of several rounds beside those of a peer: on a terminal, as lines, as a table for the docs, as JSON."""

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

from benchmarks.figures import Figure, figures

Rounds = Mapping[str, Mapping[str, Sequence[float]]]
"""By engine, then by figure: the value of each round."""

OURS = "holdfast"
OK, MISSED, NOTHING = "ok", "missed", ""
HEADINGS = ("", "what", "Holdfast", "min – max", "{peer}", "× {peer}", "min – max", "× raw", "target", "")


@dataclass(frozen=True, slots=True)
class Line:
    """One figure over all rounds. `ratios` are of the same round each."""

    figure: Figure
    values: tuple[float, ...]
    theirs: tuple[float, ...]
    raw: tuple[float, ...]

    @property
    def median(self) -> float | None:
        """What counts; None if only the peer has the figure."""
        return median(self.values) if self.values else None

    @property
    def ratios(self) -> tuple[float, ...]:
        """How many times better than the peer, round by round."""
        pairs = zip(self.values, self.theirs, strict=False)
        return tuple(self.figure.ratio(ours, theirs) for ours, theirs in pairs if ours and theirs)

    @property
    def verdict(self) -> str:
        """Whether the target is reached; nothing without a target, or without the peer it names."""
        figure, value = self.figure, self.median
        if value is None:
            return NOTHING
        if figure.times is not None:
            return NOTHING if not self.ratios else OK if median(self.ratios) >= figure.times else MISSED
        if figure.target is None:
            return NOTHING
        return OK if (value >= figure.target if figure.better == "more" else value <= figure.target) else MISSED

    @property
    def target(self) -> str:
        """In words."""
        figure = self.figure
        if figure.times is not None:
            return f"≥ {shown(figure.times)} ×"
        if figure.target is None:
            return ""
        return f"{'≥' if figure.better == 'more' else '≤'} {shown(figure.target)}"

    def cells(self) -> tuple[str, ...]:
        """As text, in the order of `HEADINGS`."""
        figure, ratios = self.figure, self.ratios
        return (
            figure.workload,
            figure.title,
            f"{shown(median(self.values))} {figure.unit}" if self.values else "",
            spread(self.values),
            f"{shown(median(self.theirs))}" if self.theirs and self.figure.peer_key == self.figure.key else "",
            shown(median(ratios)) if ratios else "",
            spread(ratios),
            shown(median(self.raw)) if self.raw else "",
            self.target,
            self.verdict,
        )


def lines_of(rounds: Rounds, peer: str = "", store: str = "sqlite") -> list[Line]:
    """The figures that were measured, in the order of the table."""
    ours, theirs = rounds.get(OURS, {}), rounds.get(peer, {})
    return [
        Line(
            figure,
            tuple(ours.get(figure.key, ())),
            tuple(theirs.get(figure.peer_key, ())),
            tuple(ours.get(figure.vs_raw, ())),
        )
        for figure in figures(store, peer)
        if ours.get(figure.key) or theirs.get(figure.key)
    ]


def shown(value: float) -> str:
    """With as many digits as mean something."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def spread(values: Sequence[float]) -> str:
    """From the least to the most."""
    return f"{shown(min(values))} – {shown(max(values))}" if len(values) > 1 else ""


def show(lines: Sequence[Line], peer: str) -> None:
    """A table on a terminal, a line each in a pipe; then what was missed."""
    headings = [heading.format(peer=peer or "peer") for heading in HEADINGS]
    if sys.stdout.isatty():
        table = Table(*headings, box=None, header_style="bold", pad_edge=False)
        for column in table.columns[2:9]:
            column.justify = "right"
        last = ""
        for line in lines:
            cells = line.cells()
            style = {OK: "green", MISSED: "bold red"}.get(line.verdict, "")
            if last not in {"", cells[0]}:
                table.add_section()
            table.add_row("" if cells[0] == last else cells[0], *cells[1:9], f"[{style}]{cells[9]}[/]" if style else "")
            last = cells[0]
        Console().print(table)
    else:
        for line in lines:
            print("\t".join(line.cells()))
    judged = [line for line in lines if line.verdict]
    missed = [line for line in judged if line.verdict == MISSED]
    print(f"\n{len(judged) - len(missed)} of {len(judged)} targets met")
    for line in missed:
        print(f"missed: {line.figure.workload} {line.figure.title}: {_reached(line)}, target {line.target}")


def _reached(line: Line) -> str:
    if line.figure.times is not None:
        return f"{shown(median(line.ratios))} × ({spread(line.ratios) or 'one round'})"
    return f"{shown(line.median or 0.0)} {line.figure.unit}"


def tables(rounds: Rounds, peers: Sequence[str], store: str) -> list[list[Line]]:
    """A table beside each peer: the first has all figures, the others those that this peer has too."""
    first, *others = [lines_of(rounds, peer, store) for peer in peers]
    return [first, *([line for line in lines if line.theirs] for lines in others)]


def save(path: Path, facts: Mapping[str, Any], rounds: Rounds) -> None:
    """Everything that was measured on one store, for programs, beside what the file says of others; the tables are
    made of it."""
    kept = {
        engine: {key: [float(f"{value:.6g}") for value in values] for key, values in sorted(found.items())}
        for engine, found in rounds.items()
    }
    known = load(path) if path.exists() else {}
    _write(path, {**known, facts["store"]: {**facts, "rounds": kept}})


def save_more(path: Path, store: str, facts: Mapping[str, Any]) -> None:
    """Adds facts to what is known of a store; its other figures stay."""
    known = load(path)
    _write(path, {**known, store: {**known[store], **facts}})


def _write(path: Path, everything: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(everything, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def load(path: Path) -> dict[str, Any]:
    """What `save` wrote, by store."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found
