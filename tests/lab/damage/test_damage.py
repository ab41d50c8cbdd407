"""The level of damaged rows in short."""

from __future__ import annotations

import pytest

from tests.lab.damage.play import play


@pytest.mark.parametrize("seed", range(12))
async def test_damage_costs_one_row(seed: int) -> None:
    """Promise: whatever stands in a column, every other run ends, and the damaged one is named, rests and can end."""
    _, problem, _ = await play(seed)
    assert not problem
