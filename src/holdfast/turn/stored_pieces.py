"""Which pieces of arguments the run's journal refers to already: they need not be sent to the store again."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core import events as e
from holdfast.turn.draft import Draft


class StoredPieces:
    """Those of the last call of each step, in this pass of the run, as far as this holder of the run has recorded them.
    What a row of the run refers to is not collected while the run is there."""

    __slots__ = ("_by_step",)

    def __init__(self) -> None:
        self._by_step: dict[str, frozenset[str]] = {}

    def leave_out(self, draft: Draft) -> None:
        """Takes from a turn's blobs the pieces that are stored."""
        for event in _in_pieces(draft):
            for name in self._by_step.get(event.step or event.key, frozenset[str]()).intersection(event.pieces):
                draft.blobs.pop(name, None)

    def learn(self, draft: Draft) -> None:
        """The turn is durable."""
        for event in _in_pieces(draft):
            self._by_step[event.step or event.key] = frozenset(event.pieces)
        if draft.ends_pass:  # what the pass before recorded may be compacted away
            self._by_step.clear()


def _in_pieces(draft: Draft) -> Iterator[e.StepScheduled]:
    return (x for x in draft.outputs if isinstance(x, e.StepScheduled) and x.pieces)
