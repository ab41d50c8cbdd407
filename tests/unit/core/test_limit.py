"""Limits: what they say, and the arithmetic of their rates."""

from __future__ import annotations

from random import Random

import pytest

from holdfast import Limit, step
from holdfast.core.limit import (
    LimitState,
    Rule,
    declared_rule,
    has_spare,
    key_text,
    make_rule,
    rate_text,
    settled_limit,
    tat_after,
    token_at,
    wake_times,
)
from holdfast.errors import DefinitionError, InvalidDuration, InvalidId

SECOND = 1_000_000


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"burst": 3},
        {"at_once": 0},
        {"at_once": -1},
        {"at_once": True},
        {"at_once": 1.5},
        {"at_once": "5"},
        {"at_once": 10**9},
        {"rate": "50/x"},
        {"rate": "50"},
        {"rate": "0/s"},
        {"rate": "-1/s"},
        {"rate": "1.5/s"},
        {"rate": "/s"},
        {"rate": "50/0s"},
        {"rate": "50/"},
        {"rate": "9999999/s"},
        {"rate": "1/10y"},
        {"rate": 50},
        {"rate": "50/s", "burst": 0},
        {"rate": "50/s", "burst": 1.5},
        {"rate": "1" * 200 + "/s"},
    ],
)
def test_a_limit_that_makes_no_sense_is_refused_when_it_is_made(options: dict[str, object]) -> None:
    """Promise: a typed error that names the limit and the option."""
    with pytest.raises(DefinitionError, match="api"):
        Limit("api", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "a\x00b", "x" * 300])
def test_a_name_that_no_store_keeps_is_refused(name: str) -> None:
    """Promise: as for every name."""
    with pytest.raises(InvalidId):
        Limit(name, at_once=1)


@pytest.mark.parametrize("path", ["", ".", "item.", "a-b", "a..b", 3])
def test_a_path_that_is_none_is_refused(path: str) -> None:
    """Promise: `by` takes the name of a parameter, or a path that begins with one."""
    with pytest.raises(DefinitionError, match="api"):
        Limit("api", at_once=1).by(path)


def test_wrong_uses_of_a_step_are_refused() -> None:
    """Promise: before anything is served."""
    api, other = Limit("api", at_once=1), Limit("other", at_once=1)

    async def price(item: str) -> str:
        return item

    with pytest.raises(DefinitionError, match="twice"):
        step(price, limits=[api, api.by("item")])
    with pytest.raises(DefinitionError, match="takes limits"):
        step(price, limits=["api"])  # type: ignore[list-item]
    with pytest.raises(DefinitionError, match="limit_wait"):
        step(price, limit_wait="1s")
    with pytest.raises(InvalidDuration):
        step(price, limits=[api], limit_wait="soon")
    with pytest.raises(DefinitionError, match="no parameter 'sku'"):
        _ = step(price, limits=[api.by("sku")]).spec
    limited = step(price, limits=[api])
    with pytest.raises(DefinitionError, match="not one of the step's"):
        limited.limit(other)(lambda item: item)
    with pytest.raises(DefinitionError, match="with the step's parameters"):
        limited.limit(api)(lambda sku: sku)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rate", "interval", "burst"),
    [
        ("50/s", 20_000, 5),
        ("100/m", 600_000, 1),
        ("10/30s", 3_000_000, 1),
        ("3/s", 333_334, 1),
        ("1/h", 3_600_000_000, 1),
    ],
)
def test_a_rate_becomes_an_interval(rate: str, interval: int, burst: int) -> None:
    """Promise: rounded so that the rate is never exceeded; it reads back as people write it."""
    rule = make_rule("api", rate, None, None)
    assert (rule.interval, rule.burst) == (interval, burst)
    assert rate_text(make_rule("api", rate_text(rule), None, None)) == rate_text(rule)


def test_no_window_has_more_than_rate_times_window_plus_burst(rng: Random) -> None:
    """Promise: whenever attempts come, and however they crowd."""
    rule = Rule(interval=20_000, burst=10)
    tat = now = 0
    admitted: list[int] = []
    for _ in range(3000):
        now += rng.choice([0, 0, 1, 500, 20_000, 400_000])
        if token_at(rule, tat) <= now:
            tat = tat_after(rule, tat, now)
            admitted.append(now)
    for first, at in enumerate(admitted[:500]):
        for last in range(first, min(first + 200, len(admitted))):
            assert last - first + 1 <= (admitted[last] - at) / 20_000 + rule.burst


def test_waiters_are_woken_when_their_tokens_come() -> None:
    """Promise: as many as find a place within the horizon, each at its own time, the first one always."""
    rule = Rule(interval=400_000, burst=1)
    given = {"held": 0, "horizon": SECOND, "most": 10}
    assert wake_times(rule, 5 * SECOND, 0, awake=0, **given) == [5 * SECOND]
    assert wake_times(rule, 0, 0, awake=0, **given) == [0, 400_000, 800_000]
    assert wake_times(rule, 0, 0, awake=2, **given) == [800_000]
    assert wake_times(Rule(at_once=5), 0, 7, awake=1, held=2, horizon=SECOND, most=10) == [7, 7]
    assert wake_times(Rule(at_once=5), 0, 7, awake=0, held=9, horizon=SECOND, most=10) == []


def test_of_two_deploys_the_rule_that_was_first_seen_last_counts() -> None:
    """Promise: a restarted old worker flips nothing; rollback works; what a person set counts more."""
    old, new = Rule(at_once=1), Rule(at_once=2)
    state = declared_rule(LimitState(), old, "i1", {"i1"})
    assert state.rule == old
    state = declared_rule(state, new, "i2", {"i1", "i2"})
    assert state.rule == new
    state = declared_rule(state, old, "i3", {"i1", "i2", "i3"})
    assert state.rule == new
    state = declared_rule(state, old, "i4", {"i4"})
    assert state.rule == old
    assert LimitState(declared=state.declared, by_hand=Rule(at_once=9)).rule == Rule(at_once=9)


def test_the_rule_of_a_deploy_that_has_gone_no_longer_counts() -> None:
    """Promise: once its last worker has ended, the rule of those that are left counts; the last one of all stays."""
    old, new = Rule(at_once=1), Rule(at_once=2)
    state = declared_rule(declared_rule(LimitState(), old, "i1", {"i1"}), new, "i2", {"i1", "i2"})
    assert settled_limit(state, {"i1", "i2"}).rule == new
    assert settled_limit(state, {"i1"}).rule == old
    assert settled_limit(state, set()).rule == new


@pytest.mark.parametrize("value", [None, 1.5, True, ["a"], "x" * 256, "a\x00", "\ud800"])
def test_a_key_that_is_no_text_is_refused(value: object) -> None:
    """Promise: a text or a whole number of at most 255 bytes, that every store keeps."""
    with pytest.raises(DefinitionError, match="the key"):
        key_text(value, "the key")


def test_a_key_is_a_text_or_a_number() -> None:
    """Promise: 255 bytes are fine."""
    assert key_text("é" * 127, "the key") == "é" * 127
    assert key_text(7, "the key") == "7"


def test_what_a_key_is_instead_is_said() -> None:
    """Promise: in good English."""
    with pytest.raises(DefinitionError, match=r"^the key is an object: the key of a limit is a text"):
        key_text(object(), "the key")


def test_one_limit_where_a_list_is_wanted_is_refused() -> None:
    """Promise: with what to write, when the step is made."""
    api = Limit("api", at_once=1)
    with pytest.raises(DefinitionError, match=r"takes a list of limits, not <limit api>: limits=\[<limit api>\]"):
        step(limits=api)  # type: ignore[call-overload]


def test_what_is_to_spare_leaves_half_of_the_burst() -> None:
    ten, second = Rule(interval=SECOND, burst=10), SECOND
    full = 100 * second
    assert [has_spare(ten, full, at * second) for at in (90, 95, 96, 500)] == [False, False, True, True]
    taken, tat, now = 0, full, 100 * second
    while has_spare(ten, tat, now):
        taken, tat = taken + 1, tat_after(ten, tat, now)
    assert taken == 5
    assert not has_spare(Rule(interval=SECOND), 0, 100 * second)
    assert not has_spare(Rule(at_once=5), 0, 100 * second)
