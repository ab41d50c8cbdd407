"""How often the parent of many children looks whether some have ended."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.engine.pacing import MANY, Pace


def parent(children: int) -> tuple[Pace, list[Any]]:
    """The pace of a session with so many children, and its looks."""
    looks: list[Any] = []
    run = SimpleNamespace(waits=dict.fromkeys(range(children)))
    session: Any = SimpleNamespace(run=run, engine=SimpleNamespace(fetch_inbox=looks.append))
    return Pace(session), looks


@pytest.mark.parametrize(("children", "seconds"), [(100, 0.005), (1_000, 0.05), (10_000, 0.05)])
async def test_a_parent_of_many_looks_as_seldom_as_its_children_are_many(children: int, seconds: float) -> None:
    """Contract: 50 µs for each child lie between two looks, up to 50 ms, whatever ends meanwhile."""
    pace, looks = parent(children)
    pace.look()
    pace.look()
    pace.look()
    assert len(looks) == 1
    assert pace.is_waiting
    assert pace._handle is not None
    assert pace._handle.when() - pace._looked_at == pytest.approx(seconds)
    pace.stop()


async def test_a_parent_of_few_is_told_at_once() -> None:
    """Contract: nobody waits for the few."""
    pace, looks = parent(MANY)
    pace.look()
    pace.look()
    assert len(looks) == 2
    assert not pace.is_waiting


async def test_the_look_that_was_put_off_comes() -> None:
    """Contract: what ended after the last look is seen."""
    pace, looks = parent(MANY + 1)
    pace.look()
    pace.look()
    async with asyncio.timeout(10):
        while len(looks) < 2:  # noqa: ASYNC110 nobody tells of a look
            await asyncio.sleep(0)
    assert not pace.is_waiting
