"""How often the parent of many children looks whether some have ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from holdfast.engine.child_pace import Pace
from holdfast.turn.park import MANY


def parent() -> tuple[Callable[[int], None], Pace, list[None]]:
    """Looks of a run that awaits so many children, at its pace."""
    looks: list[None] = []
    pace = Pace()
    return lambda children: pace.look(children, lambda: looks.append(None)), pace, looks


@pytest.mark.parametrize(("children", "seconds"), [(100, 0.005), (1_000, 0.05), (10_000, 0.05)])
async def test_a_parent_of_many_looks_as_seldom_as_its_children_are_many(children: int, seconds: float) -> None:
    """Contract: 50 µs for each child lie between two looks, up to 50 ms, whatever ends meanwhile."""
    look, pace, looks = parent()
    look(children)
    look(children)
    look(children)
    assert len(looks) == 1
    assert pace.is_waiting
    assert pace._handle is not None
    assert pace._handle.when() - pace._looked_at == pytest.approx(seconds)
    pace.stop()


async def test_a_parent_of_few_is_told_at_once() -> None:
    """Contract: nobody waits for the few."""
    look, pace, looks = parent()
    look(MANY)
    look(MANY)
    assert len(looks) == 2
    assert not pace.is_waiting


async def test_the_look_that_was_put_off_comes() -> None:
    """Contract: what ended after the last look is seen."""
    look, pace, looks = parent()
    look(MANY + 1)
    look(MANY + 1)
    async with asyncio.timeout(60):
        while len(looks) < 2:  # noqa: ASYNC110 nobody tells of a look
            await asyncio.sleep(0)
    assert not pace.is_waiting
