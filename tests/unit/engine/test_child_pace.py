"""How often the parent of many children looks whether some have ended."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.engine.child_pace import Pace
from holdfast.turn.park import MANY


def parent() -> tuple[Pace, list[None]]:
    """The pace of a run, and its looks."""
    looks: list[None] = []
    return Pace(lambda: looks.append(None)), looks


@pytest.mark.parametrize(("children", "seconds"), [(100, 0.005), (1_000, 0.05), (10_000, 0.05)])
async def test_a_parent_of_many_looks_as_seldom_as_its_children_are_many(children: int, seconds: float) -> None:
    """Contract: 50 µs for each child lie between two looks, up to 50 ms, whatever ends meanwhile."""
    pace, looks = parent()
    pace.look(children)
    pace.look(children)
    pace.look(children)
    assert len(looks) == 1
    assert pace.is_waiting
    assert pace._handle is not None
    assert pace._handle.when() - pace._looked_at == pytest.approx(seconds)
    pace.stop()


async def test_a_parent_of_few_is_told_at_once() -> None:
    """Contract: nobody waits for the few."""
    pace, looks = parent()
    pace.look(MANY)
    pace.look(MANY)
    assert len(looks) == 2
    assert not pace.is_waiting


async def test_the_look_that_was_put_off_comes() -> None:
    """Contract: what ended after the last look is seen."""
    pace, looks = parent()
    pace.look(MANY + 1)
    pace.look(MANY + 1)
    async with asyncio.timeout(10):
        while len(looks) < 2:  # noqa: ASYNC110 nobody tells of a look
            await asyncio.sleep(0)
    assert not pace.is_waiting
