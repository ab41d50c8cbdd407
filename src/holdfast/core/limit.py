"""The rules of a limit on steps, and the arithmetic of its rate. Pure; times are microseconds of the store's clock.

A rate is kept as one number, the *theoretical arrival time* (GCRA): each admission advances it by one interval, and an
admission is allowed if it is at most `burst - 1` intervals ahead of now. So in any window at most `window / interval +
burst` steps begin, and nothing has to be counted or forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeAlias

import msgspec

from holdfast.core.plurals import type_of
from holdfast.core.rate import Rate, parse_rate
from holdfast.errors import DefinitionError, InvalidInput

MOST_KEY = 255
"""Maximum bytes of a key of a limit."""

MOST_AT_ONCE = 1_000_000


class Rule(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """How much a limit allows, for each of its keys. `interval`: microseconds between two beginnings; None: any rate.
    `at_once`: attempts that run at the same time; None: any number."""

    interval: int | None = None
    burst: int = 1
    at_once: int | None = None


class Demand(msgspec.Struct, frozen=True, gc=False):
    """What an attempt of a step needs: a place of the limit `name` for `key`. `rule` is the definition's; the store's
    rule for the limit overrides it."""

    name: str
    key: str
    rule: Rule

    @property
    def line(self) -> tuple[str, str]:
        """The line where it waits."""
        return self.name, self.key


Demands: TypeAlias = Callable[[bytes], tuple[Demand, ...]]
"""The demands of an attempt with these encoded arguments, in the order of names."""

Setting: TypeAlias = tuple[Rule, bool]
"""The stored settings of a limit: its rule, and whether it is paused."""


def make_rule(what: str, rate: object, burst: object, at_once: object) -> Rule:
    """The rule of these options. Raises `DefinitionError` if they make no sense."""
    if rate is None and at_once is None:
        raise DefinitionError(f'{what} limits nothing: give rate="50/s", at_once=5, or both')
    if rate is None and burst is not None:
        raise DefinitionError(f"{what}: burst= goes with rate=")
    if at_once is not None and (not _is_count(at_once) or at_once > MOST_AT_ONCE):  # type: ignore[operator]
        raise DefinitionError(f"{what}: at_once={at_once!r} is not a number from 1 to {MOST_AT_ONCE:,}")
    parsed = None if rate is None else _parsed(what, rate)
    if burst is not None and (not _is_count(burst) or burst > MOST_AT_ONCE):  # type: ignore[operator]
        raise DefinitionError(f"{what}: burst={burst!r} is not a number from 1 to {MOST_AT_ONCE:,}")
    default = 1 if parsed is None else parsed.burst
    return Rule(None if parsed is None else parsed.interval, default if burst is None else burst, at_once)  # type: ignore[arg-type]


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _parsed(what: str, rate: object) -> Rate:
    try:
        return parse_rate(rate)
    except InvalidInput as error:
        raise DefinitionError(f"{what}: {error}") from None


def rate_text(rule: Rule) -> str:
    """The rate as people write it; empty if there is none."""
    if rule.interval is None:
        return ""
    for unit, size in (("s", 1_000_000), ("m", 60_000_000), ("h", 3_600_000_000), ("d", 86_400_000_000)):
        count = size // rule.interval or 1
        if -(-size // count) == rule.interval:
            return f"{count}/{unit}"
    return f"1/{rule.interval / 1000:.15g}ms"


# -- the rate ----------------------------------------------------------------------------------------------------------


def token_at(rule: Rule, tat: int, number: int = 1) -> int:
    """When the token of that number is available, if nothing else takes one. Without a rate: always."""
    return 0 if rule.interval is None else tat + (number - rule.burst) * rule.interval


def tat_after(rule: Rule, tat: int, now: int) -> int:
    """The theoretical arrival time after an attempt that begins now."""
    return tat if rule.interval is None else max(tat, now) + rule.interval


def has_spare(rule: Rule, tat: int, now: int) -> bool:
    """Whether more than half of the burst has gathered: those for whom it was are late, and some would soon be lost.
    What is left is for them. A burst of 1 has nothing to spare."""
    return rule.interval is not None and rule.burst > 1 and token_at(rule, tat, rule.burst // 2 + 1) <= now


def wake_times(rule: Rule, tat: int, now: int, *, awake: int, held: int, horizon: int, most: int) -> list[int]:
    """When to wake the next waiters if `awake` are woken already and `held` places are taken: as many as will find a
    place within `horizon`, and always the first if only time delays it."""
    times: list[int] = []
    number = awake
    while len(times) < most:
        number += 1
        if rule.at_once is not None and number > rule.at_once - held:
            break
        at = max(now, token_at(rule, max(tat, now), number) if rule.interval is not None else now)
        if at > now + horizon and number > 1:
            break
        times.append(at)
    return times


# -- which definition counts -------------------------------------------------------------------------------------------


class DeclaredRule(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A rule that workers declare; `number` is the order in which this store first saw it."""

    rule: Rule
    number: int
    instances: tuple[str, ...] = ()


class LimitState(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A limit in its row. A rule set by an operator applies until it is reset."""

    declared: tuple[DeclaredRule, ...] = ()
    by_hand: Rule | None = None
    is_paused: bool = False
    reason: str = ""

    @property
    def rule(self) -> Rule | None:
        """The rule that applies: the operator's, else the newest to this store that a live worker declares."""
        if self.by_hand is not None:
            return self.by_hand
        found = [one for one in self.declared if one.instances] or self.declared
        return max(found, key=lambda one: one.number).rule if found else None


def declared_rule(state: LimitState, rule: Rule, instance: str, live: Collection[str]) -> LimitState:
    """The limit after a worker has declared this rule."""
    found: list[DeclaredRule] = []
    newest = max((one.number for one in state.declared), default=0)
    known = [one.rule for one in state.declared]
    for one in state.declared if rule in known else (*state.declared, DeclaredRule(rule, newest + 1)):
        instances = tuple(x for x in one.instances if x in live and x != instance)
        if one.rule == rule:
            instances = (*instances, instance)
        found.append(msgspec.structs.replace(one, instances=instances))
    return msgspec.structs.replace(state, declared=tuple(found[-20:]))


def settled_limit(state: LimitState, live: Collection[str]) -> LimitState:
    """The limit as these instances declare it: workers have come and gone."""
    found = [
        msgspec.structs.replace(one, instances=tuple(each for each in one.instances if each in live))
        for one in state.declared
    ]
    return msgspec.structs.replace(state, declared=tuple(found))


def key_text(value: Any, what: str) -> str:
    """The key in a step's arguments. Raises `DefinitionError` if it is not a valid key."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise DefinitionError(f"{what} is {type_of(value)}: the key of a limit is a text or a whole number")
    text = str(value)
    if len(text.encode("utf-8", "surrogatepass")) > MOST_KEY:
        raise DefinitionError(f"{what} is longer than {MOST_KEY} bytes: use a shorter key, such as an id")
    if "\x00" in text or any("\ud800" <= x <= "\udfff" for x in text):
        raise DefinitionError(f"{what} has a character that a store cannot hold: use a different key")
    return text
