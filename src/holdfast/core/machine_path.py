"""The path of a machine's run, read from its journal: visits, current state, and what would be undone. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from holdfast.core import events as e
from holdfast.core.run import Run
from holdfast.core.turn import Turn


@dataclass(frozen=True, slots=True)
class Visit:
    """One visit of a state. `key` is that of its first step, sleep or script."""

    key: str
    state: str


@dataclass(slots=True)
class MachinePath:
    """What people ask about a machine's run."""

    visits: list[Visit] = field(default_factory=list[Visit])
    undoable: list[str] = field(default_factory=list[str])
    """Keys of completed visits that a failure would undo, in that order; after one, those that were not undone."""
    suspects: list[str] = field(default_factory=list[str])
    """Keys of visits that failed and may have acted: they are not undone."""
    is_over: bool = False

    @property
    def state(self) -> str:
        return self.visits[-1].state if self.visits else ""


def machine_path(run_id: str, turns: Iterable[Turn]) -> MachinePath | None:
    """The path of a machine's run; None for other runs."""
    path = MachinePath()
    run = Run(run_id)
    known: set[str] = set()
    undo: set[str] = set()
    inside = ""  # the script whose own steps are no states
    for turn in turns:
        run.apply(turn)
        for event in turn.events:
            match event:
                case e.Started() if event.style != "machine":
                    return None
                case e.Continued():
                    path, inside = MachinePath(), ""
                    known.clear()
                case e.Entered():
                    inside = event.key
                    known.add(event.key)
                    path.visits.append(Visit(event.key, event.state))
                case e.StepScheduled() | e.SleepStarted() if event.key == inside:
                    inside = ""
                    undo |= {event.key} if isinstance(event, e.StepScheduled) and event.undo else set()
                case e.StepScheduled(undoes="") | e.SleepStarted() if not inside and "." not in event.key:
                    if event.key not in known:
                        known.add(event.key)
                        path.visits.append(Visit(event.key, _label(event)))
                    undo |= {event.key} if isinstance(event, e.StepScheduled) and event.undo else set()
                case e.StepFailed() if event.key in undo:
                    path.suspects.append(event.key)
                case _:
                    pass
    path.is_over = run.end is not None
    left = run.end.undone if isinstance(run.end, e.Failed | e.Cancelled) else tuple(run.undoable)
    path.undoable = [] if isinstance(run.end, e.Completed) else list(reversed(left))
    return path


def _label(event: e.StepScheduled | e.SleepStarted) -> str:
    step = event.step if isinstance(event, e.StepScheduled) else ""
    return step or event.key.partition(":")[0].partition("^")[0]
