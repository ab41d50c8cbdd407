"""Every store lets the same runs into a queue in the same order: PostgreSQL decides in SQL what `core.gate` decides for
the others, and each remembers shares that are away for a different time."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from holdfast.adapters.memory.clock import VirtualClock
from holdfast.core import events as e
from holdfast.core.gate import MANY
from holdfast.testing.conformance.queues import end, mail_worker, make, rules
from holdfast.testing.conformance.world import START, TTL, World, seconds
from holdfast.upkeep.imposition import impose
from tests.conformance.test_stores import open_store

STEPS = 150


def script(rng: Random, crowd: int) -> list[tuple[str, Any]]:
    """What happens to the queue, step by step. `crowd`: shares that come first, with a run each."""
    names = [f"s{number}" for number in range(5)]
    gate = {
        "at_once": rng.choice((3, 8, 40)),
        "share_at_once": rng.choice((None, None, 2)),
        "weights": {"s0": rng.choice((0.5, 3.0))},
        "frees_parked": rng.random() < 0.3,
    }
    steps: list[tuple[str, Any]] = [("rules", gate), *(("make", (f"x{number:03}", 1)) for number in range(crowd))]
    for _ in range(STEPS):
        match rng.choice(("make", "make", "claim", "claim", "claim", "end", "end", "pause", "later")):
            case "make":
                steps.append(("make", (rng.choice(names), rng.choice((1, 1, 1, 3, 12, MANY + 4)))))
            case "later":
                steps.append(("later", (rng.choice(names), rng.randint(1, 20))))
            case "claim":
                steps.append(("claim", rng.choice((1, 1, 2, 5, 15))))
            case word:
                steps.append((word, rng.random()))
    return steps


async def played(store: str, steps: list[tuple[str, Any]]) -> list[list[str]]:
    """Which runs each claim let in."""
    clock = VirtualClock(START)
    world = World(await open_store(store, clock), clock)
    worker, made, held, taken = await mail_worker(world), list[str](), list[str](), set[str]()
    heart, claims = world.store.heart("i1", TTL), list[list[str]]()
    for verb, value in steps:
        clock.advance(1)
        heart.beat()
        match verb:
            case "rules":
                await rules(world, **value)
            case "make" | "later":
                share, count = value
                later = {"available_at": clock.now() + seconds(count)} if verb == "later" else {}
                for _ in range(count if verb == "make" else 1):
                    made.append(f"r{len(made):04}")
                    await make(world, made[-1], share=share, **later)
            case "claim":
                claims.append(await world.claimed_ids(worker, limit=value))
                held += claims[-1]
                taken.update(claims[-1])
            case "end" if held:
                await end(world, held.pop(int(value * len(held))))
            case "pause" if made and (run := made[int(value * len(made))]) not in taken:
                await impose(world.store, run, lambda _: [e.Paused(reason="operator")], steal=False)
                if value < 0.5:
                    await impose(world.store, run, lambda _: [e.Resumed()], steal=False)
            case _:
                pass
    await world.store.close()
    return claims


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
async def test_shares_that_come_back_after_long_go_by_their_names(store: str, tmp_path: Path) -> None:
    """Contract: of two that any new share could be ahead of, it makes no difference which was here last."""
    steps: list[tuple[str, Any]] = [("rules", {"at_once": 40, "weights": {"s0": 0.5}})]
    steps += [("make", ("s2", 1)), ("make", ("s0", 1)), ("make", ("s1", 12)), ("make", ("s3", 12)), ("claim", 26)]
    steps += [("make", ("s2", 1)), ("make", ("s0", 1)), ("claim", 2)]
    claims = await played(store, steps)
    assert claims == await played("memory", steps)
    assert claims[-1] == ["r0027", "r0026"]


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
@pytest.mark.parametrize("part", range(4))
async def test_the_stores_let_the_same_runs_in(store: str, part: int, rng: Random, tmp_path: Path) -> None:
    """Contract: claim by claim, whatever comes, ends, is paused or becomes due."""
    steps = script(rng, crowd=120 * (part % 2))
    assert await played(store, steps) == await played("memory", steps)
