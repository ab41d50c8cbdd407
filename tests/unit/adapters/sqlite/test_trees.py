"""The journal of a tree is read in two ways: by seq near the end of the store, by its runs far from it."""

from __future__ import annotations

import pytest

from holdfast.adapters.sqlite import trees
from holdfast.testing.conformance.trees import family
from holdfast.testing.conformance.world import World


@pytest.mark.spec("stepflow.J2", "stepflow.J3", "stepflow.J4")
async def test_a_tree_reads_the_same_by_its_runs_as_by_seq(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract: the same rows of the same runs, in the same order, from any row on and with any limit."""
    await family(world)
    await world.held_run("other")
    pages = [
        (root, first, limit) for root in ("root", "other", "none") for first in range(12) for limit in (0, 1, 3, 99)
    ]
    near = [await world.store.read_tree(root, from_seq=first, limit=limit) for root, first, limit in pages]
    assert {row.run for row in near[3]} == {"root", "child", "grandchild"}
    monkeypatch.setattr(trees, "NEAR", -1)
    far = [await world.store.read_tree(root, from_seq=first, limit=limit) for root, first, limit in pages]
    assert far == near
