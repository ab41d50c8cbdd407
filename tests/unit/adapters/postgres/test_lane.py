"""A lane: what was accepted is answered, whatever happened before."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from holdfast.adapters.postgres.lane import Lane
from holdfast.errors import StoreUnavailable


@pytest.mark.parametrize("error", [StoreUnavailable("nobody is there"), ValueError("what nobody thought of")])
async def test_a_lane_whose_beginning_failed_serves_all_the_same(error: Exception) -> None:
    """Promise: the server was away when the lane wanted to connect; who asks later is answered, not left waiting."""
    begun: list[bool] = []
    ended: list[bool] = []

    def begin() -> None:
        begun.append(True)
        raise error

    def perform(work: Sequence[int]) -> Sequence[int]:
        return [2 * piece for piece in work]

    lane: Lane[int] = Lane("lane", perform, lambda: ended.append(True), begin)
    assert await lane.ask(21) == 42
    lane.close()
    assert (begun, ended) == ([True], [True])
