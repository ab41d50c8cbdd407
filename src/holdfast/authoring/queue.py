"""`Queue`: how many runs of a queue may begin, how fast, and whose come first.

A value that knows no app and no store, checked when it is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.core.ids import check_name
from holdfast.core.queue import Parked, QueueRules, make_rules
from holdfast.errors import DefinitionError


class Queue:
    """The rules of a queue, over all workers of the store: `Queue("emails", at_once=20, rate="100/m")`.

    - `at_once`: at most this many runs have begun and not ended; those that only wait (a sleep, a signal) count too
    - `parked`: "frees" gives the place of a run that only waits to another; it comes back without a new place
    - `per_worker`: at most this many are let in by a worker that holds them
    - `rate`: at most this many begin per time: "50/s", "100/m", "1000/h"
    - `shares`: weights of shares, such as {"gold": 3}; every other share has weight 1. Runs name theirs when they are
      started (`share=`), and shares with runs waiting take turns
    - `share_at_once`: at most this many runs of one share have begun and not ended
    """

    def __init__(
        self,
        name: str,
        *,
        at_once: int | None = None,
        per_worker: int | None = None,
        rate: str | None = None,
        shares: Mapping[str, float] | None = None,
        share_at_once: int | None = None,
        parked: Parked = "holds",
    ) -> None:
        self.name: str = check_name(name, "the name of a queue")
        self.rules: QueueRules = make_rules(
            f"Queue({name!r})",
            at_once=at_once,
            per_worker=per_worker,
            rate=rate,
            shares=dict(shares) if isinstance(shares, Mapping) else shares,
            share_at_once=share_at_once,
            parked=parked,
        )

    def __repr__(self) -> str:
        return f"<Queue {self.name}>"


def rules_of(queues: Iterable[Queue]) -> dict[str, QueueRules]:
    """The rules of queues by name. Raises `DefinitionError` if one name has two different rules."""
    found: dict[str, QueueRules] = {}
    if not isinstance(queues, Iterable):
        raise DefinitionError(f"App(queues=[…]) takes a list of queues, not {queues!r}")
    for one in queues:
        if not isinstance(one, Queue):
            raise DefinitionError(f"App(queues=[…]) takes queues, not {one!r}")
        if found.setdefault(one.name, one.rules) != one.rules:
            raise DefinitionError(
                f"the queue {one.name!r} is declared twice, with different rules. "
                "Declare it once, or give each queue its own name."
            )
    return found
