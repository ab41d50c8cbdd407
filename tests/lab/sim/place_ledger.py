"""Who has a place under a limit, counted from what the store granted: apart from what it keeps of places itself.

S16: a place counts while its run is held with the epoch it was granted to; never more than the limit allows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable

from holdfast.ports.limits import PlaceAnswer, PlaceMove
from holdfast.ports.runs import RunRow
from tests.lab.sim.workflows import NARROW


class PlaceLedger:
    """Grants of the limit "narrow", by run and step: its key, and the epoch."""

    def __init__(self, row_of: Callable[[int], Awaitable[RunRow | None]]) -> None:
        self._row_of = row_of
        self._granted: dict[tuple[int, str], tuple[str, int]] = {}
        self.waited = 0

    async def moved(self, move: PlaceMove, answer: PlaceAnswer) -> list[str]:
        """What is wrong after a move."""
        row = await self._row_of(move.no)
        if row is not None and row.epoch == move.epoch:
            for step in move.drops:
                self._granted.pop((move.no, step), None)
        for ask in move.asks:
            self.waited += ask.step not in answer.granted
            for demand in ask.demands if ask.step in answer.granted else ():
                if demand.name == NARROW.name:
                    self._granted[move.no, ask.step] = demand.key, move.epoch
        live: Counter[str] = Counter()
        for (no, step), (key, epoch) in list(self._granted.items()):
            holder = await self._row_of(no)
            if holder is not None and holder.instance and holder.epoch == epoch and holder.ended_at is None:
                live[key] += 1
            else:
                del self._granted[no, step]
        most = NARROW.rule.at_once or 0
        return [
            f"{count} places of {key!r} are held, {most} are allowed" for key, count in live.items() if count > most
        ]
