"""The places of a queue, counted apart from the store's own columns (S16): at every claim that begins runs, no more of
them have begun and not ended than the rules of the queue say, in all and of each share.

Children ride on the places of their parents. What an operator holds for a moment is not counted: it is never refused.
That no share starves is what L1 demands in the end: every run comes to its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from holdfast.core.gate import Gate
from holdfast.ports.queues import QueueChange
from holdfast.ports.runs import Filter, RunRow
from holdfast.ports.store import Store
from tests.lab.sim.scenario import Scenario

QUEUE = "default"


async def rule(store: Store, scenario: Scenario) -> None:
    """Gives the queue its rules."""
    if scenario.at_once:
        gate = Gate(at_once=scenario.at_once, share_at_once=scenario.share_at_once or None)
        assert await store.change_queue(QueueChange(name=QUEUE, revision=0, body=b"{}", gate=gate))


async def s16_places(store: Store, scenario: Scenario, claimed: Sequence[RunRow]) -> list[str]:
    """What is wrong with the places once these runs were claimed."""
    if not scenario.at_once or not any(run.started_at is None and not run.parent for run in claimed):
        return []
    begun = [row for row in await _rows(store) if _has_place(row) and not await _is_called(store, row)]
    problems = [f"{len(begun)} runs of {scenario.at_once} have begun"] if len(begun) > scenario.at_once else []
    if scenario.share_at_once:
        for share, count in _shares(scenario, begun).items():
            if count > scenario.share_at_once:
                problems.append(f"{count} runs of share {share} have begun, {scenario.share_at_once} may")
    return problems


def is_held_back(scenario: Scenario, row: RunRow, rows: Sequence[RunRow]) -> bool:
    """Whether the run waits because all places are taken."""
    if not scenario.at_once or row.started_at is not None or row.parent:
        return False
    begun = [each for each in rows if _has_place(each)]
    shares = _shares(scenario, begun)
    (share,) = _shares(scenario, [row])
    is_share_full = 0 < scenario.share_at_once <= shares[share]
    return len(begun) >= scenario.at_once or is_share_full


def _shares(scenario: Scenario, rows: Sequence[RunRow]) -> Counter[str]:
    """How many of the runs each share has. A run without a share competes as its workflow."""
    shares = {plan.id: plan.share for plan in scenario.runs}
    return Counter(shares.get(row.id.rsplit("-", 1)[0] if row.key else row.id, "") or row.workflow for row in rows)


def _has_place(row: RunRow) -> bool:
    is_open = not row.status.is_terminal and not row.parent
    return is_open and (row.started_at is not None or bool(row.instance and not row.instance.startswith("operator-")))


async def _is_called(store: Store, row: RunRow) -> bool:
    """Whether it was called out of line before it began: to end, or to be paused. None of its code runs."""
    if row.started_at is not None:
        return False
    unread = (await store.unread({row.no: row.inbox_read})).get(row.no, ())
    return any(message.kind in {"cancel", "pause"} for message in unread)


async def _rows(store: Store) -> list[RunRow]:
    rows: list[RunRow] = []
    after = ""
    while True:
        page = await store.list(Filter(queue=QUEUE), after=after, limit=100)
        rows += page.runs
        after = page.next
        if not after:
            return rows
