"""The error of a run that could not leave a state, in the same words under an app and without one."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.authoring.machine.model import Model, Node
from holdfast.errors import StateFailed

SHOWN = 50
"""Maximum number of states in the text; the error has the whole path."""


def state_failed(
    model: Model, node: Node | None, attempt: int, kind: str, message: str, path: Sequence[str], *, run: str = ""
) -> StateFailed:
    """The error with its place. `attempt` 0: no body was called."""
    label = node.label if node is not None else ""
    text = f"machine {model.name}{f', run {run}' if run else ''}: state {label} failed"
    text += f" at attempt {attempt}" if attempt else ""
    text += f": {kind}: {message} (path: {' → '.join(path[-SHOWN:])})"
    if attempt and node is not None and node.undo is not None:
        text += f". {label} may have acted and is not undone."
    return StateFailed(
        text, machine=model.name, state=label, attempt=attempt, path=list(path), type=kind, message=message
    )
