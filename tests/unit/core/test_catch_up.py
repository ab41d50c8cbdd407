"""What a share that comes back may catch up: in time, and against what the others get."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import combinations, islice
from random import Random

import pytest

from holdfast.core.gate import CATCH_UP, LEAD, MANY, STRIDE, Gate, Pick, line, time_after, times_after


class QueueModel:
    """One queue as the stores keep it: how many runs of each share wait, and the times. `forgets`: whether what no
    longer matters is removed at once, or never."""

    def __init__(self, gate: Gate, *, forgets: bool) -> None:
        self.gate = gate
        self.time = 0
        self.waiting: Counter[str] = Counter()
        self.begun: Counter[str] = Counter()
        self.times: dict[str, int] = {}
        self._forgets = forgets

    def come(self, share: str, count: int) -> None:
        """Runs of the share come to the gate."""
        if not self.waiting[share]:
            self.times[share] = max(self.times.get(share, self.time), self.time)
        self.waiting[share] += count

    def begin(self, count: int) -> list[str]:
        """Lets so many runs in. Returns their shares."""
        in_line = sorted((time, share) for share, time in self.times.items() if self.waiting[share])
        found = line(
            in_line,
            runs_of=self._runs_of,
            places_of=self.left,
            has_many=lambda share: self.waiting[share] > MANY,
            gate=self.gate,
            time=self.time,
        )
        picks: list[Pick[int]] = list(islice(found, count))
        self.times |= times_after(picks)
        self.time = time_after(self.time, picks)
        shares = [pick.share for pick in picks]
        self.waiting.subtract(shares)
        self.begun.update(shares)
        if self._forgets:
            self.times = {s: time for s, time in self.times.items() if self.waiting[s] or time > self.time}
        return shares

    def end(self, share: str) -> None:
        """A run of the share ends."""
        self.begun[share] -= 1

    def left(self, share: str) -> int | None:
        """How many more runs of the share may begin."""
        most = self.gate.share_at_once
        return None if most is None else most - self.begun[share]

    def could_begin(self, share: str) -> bool:
        """Whether only the other shares keep a run of it waiting."""
        return self.waiting[share] > 0 and self.left(share) != 0

    def _runs_of(self, share: str) -> Iterator[int]:
        return iter(range(self.waiting[share]))


# -- in time -----------------------------------------------------------------------------------------------------------


def last_begin(places: int, length: int, flood_first: int, *, comes_at: int = 0, late: int = 0) -> int:
    """When the last of ten small runs begins, since the first came: in a queue of so many places, where each run takes
    so long, after `flood_first` others, and so many again once it is there, `late` after it."""
    queue = QueueModel(Gate(at_once=places), forgets=True)
    events: list[tuple[int, int, str, int]] = [(comes_at, 1, "small", 10)]
    if flood_first:
        events.append((0, 0, "large", flood_first))
    if late:
        events.append((comes_at + late, 2, "large", 10_000))
    events.sort()
    last, small, held = 0, 0, 0
    while small < 10:
        now, kind, share, count = heappop(events)
        if kind < 3:
            queue.come(share, count)
        else:
            queue.end(share)
            held -= 1
        if events and events[0][0] == now:
            continue
        for begun in queue.begin(places - held):
            held += 1
            heappush(events, (now + length, 3, begun, 1))
            small += begun == "small"
            last = now if begun == "small" else last
    return last - comes_at


@pytest.mark.parametrize("places", [1, 2, 5])
def test_ten_runs_wait_at_most_twice_as_long_behind_ten_thousand(places: int) -> None:
    """Promise (L6): in time, whenever they come: before the flood, with it, as it begins, or when it has long been
    there."""
    length = 100
    alone = last_begin(places, length, 0)
    assert alone == length * (9 // places)
    for comes_at in (0, 1, 50, 99, 100, 101, 199, 250, 1_001, 5_050, 20_001):
        assert last_begin(places, length, 10_000, comes_at=comes_at) <= 2 * alone, comes_at
    for late in range(1, 9 * length // places, 37):
        assert last_begin(places, length, 0, late=late) <= 2 * alone, late


def test_a_tenant_with_more_runs_than_it_may_catch_up_waits_twice_as_long() -> None:
    """Promise: in two places, as long as it may catch up at all."""
    for count in range(11, MANY + 1):
        queue = QueueModel(Gate(), forgets=True)
        queue.come("large", 10_000)
        queue.begin(100)
        queue.come("small", count)
        rounds = 0
        while queue.waiting["small"]:
            queue.begin(2)
            rounds += 1
        assert rounds <= 2 * ((count - 1) // 2), count


# -- against the others ------------------------------------------------------------------------------------------------


def check_intervals(queue: QueueModel, history: list[tuple[frozenset[str], list[str]]], drift: int) -> None:
    """Over each interval in which a share waits for nothing but its turn, each other share gets no more than its weight
    says and what it may catch up, whether it waits too or comes and leaves."""
    shares = sorted({share for waiting, _ in history for share in waiting})
    for one, other in ((a, b) for pair in combinations(shares, 2) for a, b in (pair, pair[::-1])):
        its, others = queue.gate.stride(one), queue.gate.stride(other)
        worst = 0
        for could, begun in history:
            gained = its * begun.count(one) - others * begun.count(other)
            worst = max(0, worst + gained) if other in could else 0
            assert worst <= LEAD + its + others + drift, (one, other, worst / STRIDE)


def play(rng: Random, queues: list[QueueModel], steps: int) -> list[tuple[frozenset[str], list[str]]]:
    """Random arrivals, ends and claims. Returns for each claim what could have begun before and after, and what did."""
    names = [f"s{number}" for number in range(rng.randint(2, 5))]
    first, history, ends = queues[0], list[tuple[frozenset[str], list[str]]](), 0.5
    for _ in range(steps):
        ends = rng.choice((0.0, 0.2, 1.0)) if rng.random() < 0.05 else ends
        for name in names:
            if rng.random() < 0.3:
                count = rng.choice((1, 1, 1, 2, 5, 15, 150))
                for queue in queues:
                    queue.come(name, count)
        could = frozenset(name for name in names if first.could_begin(name))
        size = rng.choice((1, 1, 1, 2, 5))
        began = [queue.begin(size) for queue in queues]
        assert all(each == began[0] for each in began), began
        history.append((frozenset(name for name in could if first.could_begin(name)), began[0]))
        for name in names:
            if first.begun[name] and rng.random() < ends:
                for queue in queues:
                    queue.end(name)
        if rng.random() < 0.02:
            names[rng.randrange(len(names))] = f"s{rng.randrange(100)}"
    return history


def random_gate(rng: Random) -> Gate:
    weights = {f"s{number}": rng.choice((0.25, 0.5, 1.0, 2.0, 3.0)) for number in range(3) if rng.random() < 0.5}
    return Gate(weights=weights, share_at_once=rng.choice((None, None, 1, 3)))


def test_no_share_gets_more_than_its_part_and_what_it_may_catch_up(rng: Random) -> None:
    """Promise: whatever comes when, over each interval in which another one waits. And it makes no difference whether
    what no longer matters is remembered."""
    for _ in range(60):
        gate = random_gate(rng)
        queues = [QueueModel(gate, forgets=True), QueueModel(gate, forgets=False)]
        history = play(rng, queues, 120)
        check_intervals(queues[0], history, drift=STRIDE // 10)


def test_runs_that_come_one_by_one_gain_the_lead_once() -> None:
    """Promise: a tenant that is away between its runs does not get the lead again each time."""
    queue = QueueModel(Gate(), forgets=True)
    queue.come("large", 10_000)
    queue.begin(100)
    order: list[str] = []
    for _ in range(200):
        if not queue.waiting["drop"]:
            queue.come("drop", 1)
        order += queue.begin(1)
    assert order[: CATCH_UP + 1] == ["drop"] * (CATCH_UP + 1)
    assert abs(order.count("drop") - order.count("large")) <= CATCH_UP + 1


def test_a_backlog_moves_on_however_shares_come_and_leave(rng: Random) -> None:
    """Promise: between two runs of a share that waits, each of the others begins at most as many as it may catch up and
    its own turns, so none starves."""
    queue = QueueModel(Gate(), forgets=True)
    others = [f"s{number}" for number in range(5)]
    queue.come("large", 10_000)
    since: Counter[str] = Counter()
    for _ in range(3_000):
        share = rng.choice(others)
        queue.come(share, rng.choice((1, 1, 4, 40)) if queue.waiting[share] < 60 else 0)
        (begun,) = queue.begin(1)
        since = Counter() if begun == "large" else since + Counter([begun])
        assert max(since.values(), default=0) <= CATCH_UP + 2, since


def test_shares_that_come_once_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract: what is remembered is bounded, also if the line is never empty and no share ever comes back; and the
    first that came begins first."""
    monkeypatch.setattr("holdfast.core.gate.PACE", STRIDE // 10)
    queue, names = QueueModel(Gate(), forgets=True), [f"s{number}" for number in range(1_999, 999, -1)]
    order: list[str] = []
    for number, name in enumerate(names):
        queue.come(name, 1)
        order += queue.begin(1) if number >= 3 else []
    assert order[4:] == names[4:-3]
    assert len(queue.times) <= 10 * (CATCH_UP + 1) + 3
