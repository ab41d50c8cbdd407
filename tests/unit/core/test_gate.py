"""The gate of a queue: how many may begin, and in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import islice
from random import Random

import pytest

from holdfast.core.gate import LEAD, MANY, OPEN, PACE, STRIDE, Gate, Pick, Room, line, room, time_after, times_after


def taken(
    shares: dict[str, int], counts: dict[str, int], gate: Gate = OPEN, time: int = -LEAD, **places: int
) -> list[str]:
    def runs_of(share: str) -> Iterator[str]:
        return iter([f"{share}{number}" for number in range(counts.get(share, 0))])

    ordered = sorted((time, share) for share, time in shares.items())
    has_many = partial(_has_many, counts)
    picks = list(line(ordered, runs_of=runs_of, places_of=places.get, has_many=has_many, gate=gate, time=time))
    assert [pick.start for pick in picks] == sorted(pick.start for pick in picks)
    return [pick.run for pick in picks]


def _has_many(counts: dict[str, int], share: str) -> bool:
    return counts[share] > MANY


@pytest.mark.parametrize(
    ("gate", "wanted"),
    [
        (Gate(), Room(10)),
        (Gate(is_paused=True), Room(0)),
        (Gate(at_once=5), Room(2)),
        (Gate(at_once=3), Room(0)),
        (Gate(at_once=2), Room(0)),
        (Gate(per_worker=4), Room(2)),
        (Gate(at_once=5, per_worker=3), Room(1)),
        (Gate(interval=100, burst=1), Room(0, 1_050)),
        (Gate(interval=100, burst=2), Room(1)),
        (Gate(interval=100, burst=1, at_once=3), Room(0)),
    ],
)
def test_a_gate_leaves_room(gate: Gate, wanted: Room) -> None:
    """Contract: of everything that limits, the least; a time only if the rate alone is in the way."""
    assert room(gate, 10, begun=3, held=2, until=1_050, now=1_000) == wanted


def test_shares_take_turns_by_name_and_time() -> None:
    """Contract: the share with the least virtual time first; of equal ones by name."""
    assert taken({"b": 0, "a": 0}, {"a": 2, "b": 3}) == ["a0", "b0", "a1", "b1", "b2"]
    assert taken({"a": 1_000_000, "b": 0}, {"a": 2, "b": 3}) == ["b0", "a0", "b1", "a1", "b2"]


def test_a_share_without_places_is_passed_over() -> None:
    assert taken({"a": 0, "b": 0, "c": 0}, {"a": 3, "b": 3, "c": 3}, a=0, b=1) == ["b0", "c0", "c1", "c2"]


def test_only_the_shares_that_are_needed_are_read() -> None:
    """Contract: the first runs of ten thousand shares are found without looking at all of them."""
    read = list[str]()

    def shares() -> Iterator[tuple[int, str]]:
        for number in range(10_000):
            read.append(f"s{number:05}")
            yield 0, f"s{number:05}"

    found = line(
        shares(),
        runs_of=lambda share: iter([share]),
        places_of=lambda share: None,
        has_many=lambda share: share < "s00003",
        gate=OPEN,
        time=1,
    )
    assert [pick.run for pick in islice(found, 3)] == ["s00000", "s00001", "s00002"]
    assert len(read) <= 5


def test_every_share_gets_its_weight(rng: Random) -> None:
    """Promise: among shares that always have runs, each gets its weight of any stretch, within one run of each."""
    for _ in range(50):
        weights = {f"s{number}": rng.choice((0.5, 1.0, 1.0, 2.0, 3.0, 7.0)) for number in range(rng.randint(2, 6))}
        gate = Gate(weights=weights)
        order = taken(dict.fromkeys(weights, 0), dict.fromkeys(weights, 400), gate)
        whole = sum(weights.values())
        length = int(min(200 * whole / max(weights.values()), len(order)))
        counts = Counter(run[:2] for run in order[:length])
        for share, weight in weights.items():
            assert abs(counts[share] - length * weight / whole) <= len(weights) + 1, (weights, counts)


def test_what_was_taken_moves_its_shares() -> None:
    gate = Gate(weights={"gold": 4.0})
    picks = _picks([(5, "gold")], {"gold": 2}, gate, time=0)
    assert times_after(picks) == {"gold": 500_005}
    assert [(pick.start, pick.finish) for pick in picks] == [(5, 250_005), (250_005, 500_005)]


@pytest.mark.parametrize(("counts", "wanted"), [(MANY, 7), (MANY + 1, 7 + LEAD)])
def test_a_share_that_lags_behind_begins_at_the_time_of_the_queue(counts: int, wanted: int) -> None:
    """Contract: what it did not use longer ago is lost, and with many runs waiting all of it."""
    assert _picks([(-LEAD, "a")], {"a": counts}, OPEN, time=7)[0].start == wanted
    assert _picks([(8 + LEAD, "a")], {"a": counts}, OPEN, time=7)[0].start == 8 + LEAD


def test_the_time_of_a_queue_follows_the_runs_that_begin() -> None:
    """Contract: the lead below the last start; and each run moves it on by a little."""
    picks = _picks([(10 + LEAD, "a")], {"a": 3}, OPEN, time=0)
    assert time_after(0, picks) == 10 + 2 * STRIDE
    assert time_after(STRIDE * 3, picks) == STRIDE * 3 + 3 * PACE
    assert time_after(5, []) == 5


def _picks(shares: list[tuple[int, str]], counts: dict[str, int], gate: Gate, time: int) -> list[Pick[int]]:
    found = line(
        shares,
        runs_of=lambda share: iter(range(counts[share])),
        places_of=lambda share: None,
        has_many=partial(_has_many, counts),
        gate=gate,
        time=time,
    )
    return list(found)
