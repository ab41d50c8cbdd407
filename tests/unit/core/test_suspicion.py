"""Who is to blame for the end of a worker."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.suspicion import (
    ALONE,
    NONE,
    SOLO,
    Suspicion,
    after_death,
    is_convicted,
    sentence,
    taken_back,
    trial,
    weight,
    words,
)

NET = 20


def _suspicion(alone: int, beside: int, among: int) -> Suspicion:
    return Suspicion(alone + beside + among, alone + beside, alone)


found = st.builds(_suspicion, st.integers(0, 5), st.integers(0, 5), st.integers(0, 5))


@pytest.mark.parametrize(
    ("suspects", "held", "added"), [(0, 1, 0), (0, 9, 0), (1, 1, 2), (1, 2, 1), (1, 100, 1), (2, 2, 0), (7, 100, 0)]
)
def test_a_death_counts_only_with_one_suspect_aboard(suspects: int, held: int, added: int) -> None:
    assert weight(suspects=suspects, held=held) == added


def test_a_run_whose_claim_does_not_count_is_no_suspect() -> None:
    """Promise: whoever made progress under its claim is not blamed, whatever stood against it before."""
    assert after_death(Suspicion(3, 2, 1), 0, 2) == NONE


@given(found, st.integers(1, 30), st.integers(0, 2))
def test_what_a_death_added_can_be_taken_back(before: Suspicion, claims: int, added: int) -> None:
    """Promise: taking back undoes exactly that death."""
    after = after_death(before, claims, added if before.is_suspect else 0)
    assert after.deaths == before.deaths + 1
    assert taken_back(after, added if before.is_suspect else 0) == before


def test_one_that_runs_alone_is_convicted_at_the_fourth_death() -> None:
    """Promise: the bound. The first death is under the claim that brought progress, the second makes it a suspect."""
    suspicion, deaths = NONE, 1
    while not is_convicted(suspicion, deaths, NET):
        suspicion = after_death(suspicion, deaths, weight(suspects=int(suspicion.is_suspect), held=1))
        deaths += 1
    assert deaths == 2 + ALONE


def test_one_among_fresh_runs_is_convicted_at_the_sixth_death() -> None:
    suspicion, deaths = NONE, 1
    while not is_convicted(suspicion, deaths, NET):
        suspicion = after_death(suspicion, deaths, weight(suspects=int(suspicion.is_suspect), held=50))
        deaths += 1
    assert deaths == 2 + SOLO


@given(st.integers(0, 4))
def test_another_fresh_run_convicts_nobody(strikes: int) -> None:
    """Promise: a run that is new to the store kills twice before it is a suspect; that is not enough for one beside."""
    suspicion = Suspicion(1)
    for claims in range(2, 2 + min(strikes, 2)):
        suspicion = after_death(suspicion, claims, weight(suspects=1, held=2))
    assert not is_convicted(suspicion, 4, NET)


def test_claims_are_the_net() -> None:
    """Promise: whatever stands against it, a run that gets nowhere is quarantined in the end."""
    assert not is_convicted(Suspicion(18), NET - 1, NET)
    assert is_convicted(NONE, NET, NET)
    assert sentence(Suspicion(19), NET).startswith("claimed 20 times without progress: ")


def test_a_trial_is_a_minute_and_doubles() -> None:
    assert [trial(claims) // timedelta(minutes=1) for claims in (1, 2, 3, 4, 12, 20)] == [1, 1, 2, 4, 1024, 1024]


@pytest.mark.parametrize(
    ("suspicion", "text"),
    [
        (NONE, ""),
        (Suspicion(1), "suspect: its worker died once while it ran, among other suspects"),
        (Suspicion(3, 2), "suspect: its worker died twice while it was the only suspect there"),
        (Suspicion(3, 2, 2), "suspect: its worker died twice while it ran alone"),
        (
            Suspicion(5, 4, 1),
            "suspect: its worker died once while it ran alone, and 3 times while it was the only suspect there",
        ),
    ],
)
def test_what_stands_against_a_run_is_said_in_words(suspicion: Suspicion, text: str) -> None:
    assert words(suspicion) == text
    assert sentence(Suspicion(3, 2, 2), 5) == (
        "its worker died twice while it ran alone: it seems to end its worker. Look at its step in flight, then "
        "resume it."
    )
