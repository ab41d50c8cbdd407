"""What a claim takes if the store changes between its look and its transaction."""

from __future__ import annotations

from holdfast.adapters.sqlite import SqliteStore
from holdfast.adapters.sqlite.claims import ClaimRuns, Prospect
from holdfast.testing.conformance.world import World, request

BOTH = (("email", ""), ("order", ""))


async def test_a_claim_takes_what_came_after_its_look_if_others_took_the_rest(world: World, store: SqliteStore) -> None:
    """Promise: a claim comes back empty only if there was nothing to claim in the moment of its transaction: its worker
    would rest beside work."""
    worker = await world.worker("i1", definitions=BOTH)
    await world.make("late", "email")
    looked = Prospect([("default", ("order", ""))], [], [], None, [])  # before `late` was made and another run taken
    taken = await store._writer.run(ClaimRuns(request(worker), {}, looked))
    assert [run.id for run in taken.runs] == ["late"]


async def test_a_claim_does_not_look_twice_at_what_it_can_take(world: World, store: SqliteStore) -> None:
    """Promise: what the look before the transaction found is not looked for again within it."""
    worker = await world.worker("i1", definitions=BOTH)
    await world.make("seen", "order")
    await world.make("other", "email")
    looked = Prospect([("default", ("order", ""))], [], [], None, [])
    taken = await store._writer.run(ClaimRuns(request(worker), {}, looked))
    assert [run.id for run in taken.runs] == ["seen"]
