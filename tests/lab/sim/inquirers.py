"""Those who ask runs something. Each asks with one id until it is told what became of its question.

An answered question is answered once, and every question is answered, refused or told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from holdfast.authoring.handle import Run
from holdfast.core import events as e
from holdfast.core.turn import decode_row
from holdfast.errors import RunFinished, RunNotFound, StoreError, UpdateRefused, UpdateTimeout, UpdateUnanswered
from tests.lab.sim.workflows import question

if TYPE_CHECKING:
    from tests.lab.sim.world import World


class Inquirers:
    """All of them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._told: dict[tuple[str, str], tuple[int, str]] = {}
        """By run and question: what was asked, and what its asker was told."""

    async def ask_all(self, run: Run[Any], times: Sequence[float]) -> None:
        """One question at each of these times."""
        await asyncio.gather(*(self._ask(run, number, at) for number, at in enumerate(times)))

    async def _ask(self, run: Run[Any], number: int, at: float) -> None:
        await asyncio.sleep(max(0.0, at - self._world.loop.time()))
        name, asked = f"{run.id} question {number}", -1 if number == 4 else number
        while (told := await self._once(run, name, asked)) is None:
            pass
        self._told[run.id, name] = asked, told
        self._world.met[f"question {told.partition(' ')[0]}"] += 1

    async def _once(self, run: Run[Any], name: str, asked: int) -> str | None:
        try:
            answer: int = await run.update(question, asked, id=name, timeout="2s")
            return f"answered {answer}"
        except UpdateTimeout:
            return None
        except StoreError:
            await asyncio.sleep(0.1)
            return None
        except UpdateUnanswered:
            return "unanswered"
        except UpdateRefused:
            return "refused"
        except (RunFinished, RunNotFound):
            return "gone"

    async def verify(self) -> None:
        """In the end: what each was told is what the store and the journal say, once."""
        world = self._world
        for (run, name), (asked, told) in self._told.items():
            known = world.watch.runs.get(run)
            if known is None or told == "gone":
                continue
            events = [event for row in known.rows for event in decode_row(row).events]
            answers = [x for x in events if isinstance(x, e.Answered) and x.message == name]
            if len(answers) > 1:
                world.watch.wrong("S12", run, f"{name} is answered {len(answers)} times")
            expected = "refused" if asked < 0 or asked % 4 == 1 else f"answered {2 * asked}"
            if told not in {expected, "unanswered"}:
                world.watch.wrong("S12", run, f"{name} was {told} instead of {expected}")
            stored = await world.store.question(run, name)
            if stored is not None and known.fold.end is not None and stored.answer is None:
                world.watch.wrong("S12", run, f"{name} has no answer, and the run has ended")
