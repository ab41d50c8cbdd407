"""Step gates decide whether the steps that a run asks for may begin now. If not, the run is released, and they wait.

A gate sees the run and its inputs. A run whose steps are held is parked, until a message or a time wakes it. Rounds,
the breadth-first order of a batch, are one gate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.core import events as e
from holdfast.core.rounds import must_wait
from holdfast.core.run import Run


class StepGate(Protocol):
    """Decides whether steps begin."""

    def holds(self, run: Run, inputs: Sequence[e.AnyEvent]) -> bool:
        """Whether steps that have not begun, or are asked for now, must wait."""
        ...


class Rounds:
    """A parent of many runs lets all of them do their next steps before any does later ones."""

    def holds(self, run: Run, inputs: Sequence[e.AnyEvent]) -> bool:
        """Whether the steps belong to the run's next round."""
        is_stopping = run.cancel is not None or run.past_deadline is not None
        return must_wait(run.round, inputs, is_stopping=is_stopping)


ROUNDS = Rounds()


def gate_of(run: Run) -> StepGate | None:
    """The gate for the steps of a run; usually None."""
    return ROUNDS if run.round else None
