"""Durable keys: unique in a pass, the same in every pass."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.call_keys import Keys

few = st.sampled_from(["a", "b", "a:1", "a:2", "a:1:1", "b:1", "a^2", "a^3", "a:1^2", ":1", "^2"])
calls = st.lists(few | st.text(min_size=1, max_size=3), max_size=30)
spent_keys = st.sets(few, max_size=5)


def taken(calls: list[str], spent: set[str] | None = None) -> list[str]:
    keys = Keys(spent) if spent is not None else Keys()
    return [keys.take(name) for name in calls]


def test_the_first_use_of_a_name_keeps_it() -> None:
    """Contract: O42: foo, foo:1, foo:2, …"""
    assert taken(["foo"] * 4) == ["foo", "foo:1", "foo:2", "foo:3"]


def test_names_used_explicitly_are_skipped() -> None:
    """Contract: O43: foo, foo:1, foo gives foo, foo:1, foo:2."""
    assert taken(["foo", "foo:1", "foo", "foo"]) == ["foo", "foo:1", "foo:2", "foo:3"]
    assert taken(["foo:2", "foo:1", "foo", "foo", "foo"]) == ["foo:2", "foo:1", "foo", "foo:3", "foo:4"]
    assert taken(["foo", "foo", "foo:1", "foo"]) == ["foo", "foo:1", "foo:1:1", "foo:2"]


def test_each_name_counts_for_itself() -> None:
    assert taken(["a", "b", "a", "b", "a"]) == ["a", "b", "a:1", "b:1", "a:2"]


@given(calls, spent_keys)
def test_no_key_is_given_out_twice_and_none_that_is_spent(calls: list[str], spent: set[str]) -> None:
    given_out = taken(calls, spent)
    assert len(set(given_out)) == len(given_out)
    assert not set(given_out) & spent


@given(calls, spent_keys)
def test_the_same_calls_get_the_same_keys(calls: list[str], spent: set[str]) -> None:
    """Contract: a replay, or a longer pass, gives every call the key it had: counters restart with each pass."""
    whole = taken(calls, spent)
    assert taken(calls, spent) == whole
    for length in range(len(calls)):
        assert taken(calls[:length], spent) == whole[:length]


def test_a_spent_key_has_a_second_life_and_its_neighbours_keep_theirs() -> None:
    """Contract: a deed that was undone is done anew under another key; calls after it are found under their own."""
    assert taken(["charge", "charge", "ship"], {"charge"}) == ["charge^2", "charge:1", "ship"]
    assert taken(["charge", "charge"], {"charge:1"}) == ["charge", "charge:1^2"]
    assert taken(["charge"], {"charge", "charge^2", "charge^3"}) == ["charge^4"]
    assert taken(["charge", "charge^2"], {"charge"}) == ["charge^2", "charge^2:1"]
    assert taken(["charge^2", "charge"], {"charge"}) == ["charge^2", "charge^3"]
