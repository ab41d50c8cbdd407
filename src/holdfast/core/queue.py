"""Queues: what their rules are, and which of several declarations of one name counts. Pure.

Of the declarations that live workers make, the one that this store first saw last counts: a new deploy takes over with
its first worker, an old worker that restarts changes nothing, and after a rollback the old rules count again. What a
person sets by hand counts before all of them, field by field, until it is reset. If no live worker declares the queue,
what counted last still does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Any, Literal, TypeAlias

import msgspec

from holdfast.core.gate import Gate
from holdfast.core.guards import is_dict
from holdfast.core.ids import check_name
from holdfast.core.rate import Rate, parse_rate
from holdfast.errors import InvalidInput, InvalidQueue

Parked: TypeAlias = Literal["holds", "frees"]
"""Whether a run that only waits still has its place."""

REMEMBERED = 20
"""Declarations of a queue whose first sight is remembered."""

MOST_SHARES = 10_000
"""Shares that one queue may give a weight."""

LARGEST = 1_000_000_000
HEAVIEST = 1_000_000


class QueueRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The rules of a queue; nothing given is no limit."""

    at_once: int | None = None
    per_worker: int | None = None
    rate: Rate | None = None
    shares: dict[str, float] = {}
    share_at_once: int | None = None
    parked: Parked = "holds"

    @property
    def digest(self) -> str:
        """Names these rules among others."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()[:16]


class DeclaredQueue(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Rules that workers declare. `number` is the order in which the store first saw them; without `rules` no live
    worker declares them."""

    digest: str
    number: int
    by: str = ""
    instances: tuple[str, ...] = ()
    rules: QueueRules | None = None


class QueueState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a queue. `overrides`: what a person changed, as `QueueRules` has it. `reason` and `actor` are
    about its pause."""

    rules: QueueRules = QueueRules()
    declared: tuple[DeclaredQueue, ...] = ()
    overrides: dict[str, Any] = {}
    is_paused: bool = False
    reason: str = ""
    actor: str = ""

    @property
    def effective(self) -> QueueRules:
        """The rules that count."""
        if not self.overrides:
            return self.rules
        return msgspec.convert({**msgspec.to_builtins(self.rules), **self.overrides}, QueueRules)

    @property
    def gate(self) -> Gate:
        """What the store enforces."""
        rules = self.effective
        return Gate(
            is_paused=self.is_paused,
            at_once=rules.at_once,
            per_worker=rules.per_worker,
            interval=0 if rules.rate is None else rules.rate.interval,
            burst=1 if rules.rate is None else rules.rate.burst,
            weights=rules.shares,
            share_at_once=rules.share_at_once,
            frees_parked=rules.parked == "frees",
        )


def make_rules(where: str, **given: Any) -> QueueRules:
    """Checked rules from what a user wrote; `InvalidQueue` says what is wrong, and `where`."""
    try:
        return _rules(**given)
    except InvalidInput as error:
        raise InvalidQueue(f"{where}: {error}") from None


def _rules(
    *,
    at_once: object = None,
    per_worker: object = None,
    rate: object = None,
    shares: object = None,
    share_at_once: object = None,
    parked: object = "holds",
) -> QueueRules:
    if parked not in ("holds", "frees"):
        raise InvalidInput(f"parked={parked!r}: use 'holds' (a parked run keeps its place) or 'frees'.")
    return QueueRules(
        at_once=_places(at_once, "at_once"),
        per_worker=_places(per_worker, "per_worker"),
        rate=None if rate is None else parse_rate(rate),
        shares=_weights(shares),
        share_at_once=_places(share_at_once, "share_at_once"),
        parked="holds" if parked == "holds" else "frees",
    )


def _places(value: object, what: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST:
        raise InvalidInput(
            f"{what}={value!r}: give a whole number from 1 to {LARGEST:,}, or None for no limit. To let nothing begin, "
            "pause the queue."
        )
    return value


def _weights(value: object) -> dict[str, float]:
    if value is None:
        return {}
    if not is_dict(value):
        raise InvalidInput(f"shares={value!r}: give weights by share, such as {{'gold': 3}}.")
    if len(value) > MOST_SHARES:
        raise InvalidInput(f"shares: {len(value):,} shares have a weight; at most {MOST_SHARES:,} may. Leave out 1s.")
    weights: dict[str, float] = {}
    for share, weight in value.items():
        name = check_name(share, "a share")
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight <= HEAVIEST:
            raise InvalidInput(f"shares={{{name!r}: {weight!r}}}: a weight is above 0 and at most {HEAVIEST:,}.")
        weights[name] = float(weight)
    return weights


def declared_queue(
    state: QueueState, rules: QueueRules, *, instance: str, by: str, live: Collection[str]
) -> QueueState:
    """The queue once a worker has declared these rules."""
    digest, known = rules.digest, {one.digest: one for one in state.declared}
    newest = max((one.number for one in state.declared), default=0)
    one = known.get(digest) or DeclaredQueue(digest=digest, number=newest + 1)
    instances = tuple(dict.fromkeys((*one.instances, instance)))
    known[digest] = msgspec.structs.replace(one, instances=instances, by=by, rules=rules)
    for other in known.keys() - {digest}:  # an instance declares a queue once
        kept = tuple(each for each in known[other].instances if each != instance)
        known[other] = msgspec.structs.replace(known[other], instances=kept)
    return settled_queue(msgspec.structs.replace(state, declared=tuple(known.values())), {*live, instance})


def settled_queue(state: QueueState, live: Collection[str]) -> QueueState:
    """The queue with the rules that count, as these instances live."""
    found = [_living(one, live) for one in state.declared]
    candidates = [one for one in found if one.rules is not None]
    ranked = sorted(found, key=lambda one: (one.rules is not None, one.number), reverse=True)
    kept = tuple(sorted(ranked[:REMEMBERED], key=lambda one: one.number))
    rules = max(candidates, key=lambda one: one.number).rules if candidates else state.rules
    return msgspec.structs.replace(state, declared=kept, rules=rules or QueueRules())


def is_declared_queue(state: QueueState, live: Collection[str]) -> bool:
    """Whether a live worker declares it."""
    return any(set(one.instances) & set(live) for one in state.declared)


def _living(one: DeclaredQueue, live: Collection[str]) -> DeclaredQueue:
    instances = tuple(each for each in one.instances if each in live)
    return msgspec.structs.replace(one, instances=instances, rules=one.rules if instances else None)
