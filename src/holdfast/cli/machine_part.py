"""The part of `holdfast show` for machines: path, state, and what would be undone."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.cli.output import Output
from holdfast.client.inspect.story import Story
from holdfast.core.machine_path import MachinePath, machine_path
from holdfast.core.turn import Turn

SHOWN = 30


class MachinePart:
    """Path, state, and what would be undone; empty for other runs."""

    def show(self, story: Story, out: Output) -> None:
        if story.started is not None and not story.is_compacted:
            print_machine(story.view.id, story.turns, out)


def print_machine(run_id: str, turns: Sequence[Turn], out: Output) -> None:
    """Prints the part; nothing for other runs."""
    path = machine_path(run_id, turns)
    if path is None or not path.visits:
        return
    out.line("")
    out.line(("machine", "bold"))
    out.fields(
        [
            ("path", _way(path)),
            ("state", "" if path.is_over else path.state),
            ("not undone" if path.is_over else "would be undone", ", ".join(path.undoable)),
            ("may have acted, not undone", ", ".join(path.suspects)),
            ("to finish", f"holdfast compensate {run_id} MODULE:APP" if path.is_over and path.undoable else ""),
        ]
    )


def _way(path: MachinePath) -> str:
    labels = [visit.state for visit in path.visits]
    left_out = f"({len(labels) - SHOWN} more) → " if len(labels) > SHOWN else ""
    return left_out + " → ".join(labels[-SHOWN:])
