"""The short table in the README: a few of the measured figures, written between two marks and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.peers import PEERS
from benchmarks.report import Line, lines_of, shown, spread

README = Path(__file__).resolve().parents[1] / "README.md"
BEGIN = "<!-- speed: made by `python3 dev.py bench --render` -->"
END = "<!-- end of speed -->"

CHOSEN = {
    "W1.async": "runs of one step",
    "W2.async": "steps of one run, one after the other",
    "W2.async.raw": "… beside what the disk can commit, a row at a time",
    "W3.async": "steps of 100 runs at once",
    "W4.async.p50": "from start to result, median",
    "W5.after": "500 runs of a killed worker completed by another, once its lease is over",
    "W6.launch": "resuming a run of 5,000 steps in a new process",
    "W8.one": "on disk per step",
}
"""Those that answer a newcomer's questions, in a newcomer's words; the page that the table links to has them all."""


def summary(results: Mapping[str, Any]) -> str:
    """The table and where it comes from. What newcomers read first is a record, never a look."""
    if results["scale"] != "full":
        return "`python3 dev.py bench` fills this table; [figures so far](docs/explanation/speed.md)."
    peer = next(one for one in PEERS[results["store"]] if one.name in results["rounds"])
    lines = [line for line in lines_of(results["rounds"], peer.name) if line.figure.key in CHOSEN]
    machine, versions = results["machine"], results["versions"]
    source = (
        f"Medians of {results['rounds_wanted']} rounds on {machine['cores']} cores ({machine['processor']}), SQLite "
        "for both. [All figures](docs/explanation/speed.md), with spread, targets and what is missed."
    )
    return "\n".join(
        [
            f"| | Holdfast | beside {peer.title} {versions[peer.name]} |",
            "|---|---:|---:|",
            *(f"| {CHOSEN[line.figure.key]} | {_value(line)} | {_times(line)} |" for line in lines),
            "",
            source,
        ]
    )


def _value(line: Line) -> str:
    return f"{shown(line.median)} {line.figure.unit}" if line.median is not None else ""


def _times(line: Line) -> str:
    if not line.ratios:
        return ""
    said = f"{shown(median(line.ratios))} × better"
    return f"{said} ({spread(line.ratios)})" if len(line.ratios) > 1 else said


def renewed(text: str, results: Mapping[str, Any]) -> str:
    """The README's text with the table of these results."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"README.md has no place for the figures: {BEGIN} … {END}")
    return f"{before}{BEGIN}\n\n{summary(results)}\n\n{END}{after}"


def write(results: Mapping[str, Any]) -> None:
    """Renews it, from the results of one store."""
    README.write_text(renewed(README.read_text(encoding="utf-8"), results), encoding="utf-8")
