"""Which of the runs that a dead worker held is to blame. Pure; the SQL of the stores does what is said here.

A run is a suspect once its worker died while it held the run, claimed once more without any progress. A worker instance
holds at most one suspect at a time, and fresh runs beside it, so a death says something: with one suspect aboard it
counts against that one (`solo`), and more so if nothing else was aboard (`alone`). Beside a suspect that is innocent a
fresh run may kill too, twice before it is a suspect itself: that is why it takes four deaths beside others.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TypeAlias

import msgspec

from holdfast.core.plurals import counted

ALONE, SOLO = 2, 4
"""The number of deaths that quarantine a run: while its worker held nothing else, and while it was the only suspect
there."""

FIRST_TRIAL, MOST_DOUBLINGS = timedelta(minutes=1), 10
FIRST_SUSPECT = 2
"""The first claim of a suspect is the second without progress."""

Weight: TypeAlias = int
"""What a death adds to the only suspect aboard: 1 to `solo`, 2 to both counts, 0 to neither."""


class Suspicion(msgspec.Struct, frozen=True, gc=False):
    """What stands against a run: the deaths of its workers since it last made progress or was cleared."""

    deaths: int = 0
    solo: int = 0
    alone: int = 0

    @property
    def is_suspect(self) -> bool:
        return self.deaths > 0


NONE = Suspicion()


def weight(*, suspects: int, held: int) -> Weight:
    """What a death adds to the suspect, by how many suspects and how many runs in all the instance held."""
    return 0 if suspects != 1 else 2 if held == 1 else 1


def after_death(before: Suspicion, claims: int, added: Weight) -> Suspicion:
    """What stands against a run whose holder died. Without a claim that counts, nothing."""
    if not claims:
        return NONE
    if not before.is_suspect:
        return Suspicion(1)
    return Suspicion(before.deaths + 1, before.solo + (added > 0), before.alone + (added > 1))


def taken_back(after: Suspicion, added: Weight) -> Suspicion:
    """The holder lives: as if it had not died."""
    deaths = after.deaths - 1
    return Suspicion(deaths, after.solo - (added > 0), after.alone - (added > 1)) if deaths > 0 else NONE


def is_convicted(suspicion: Suspicion, claims: int, max_claims: int) -> bool:
    """Whether the run is quarantined instead of tried once more. The claims are the net under the rule."""
    return suspicion.alone >= ALONE or suspicion.solo >= SOLO or claims >= max_claims


def trial(claims: int) -> timedelta:
    """How long a suspect has to live to be cleared: a minute, twice as long with each further claim."""
    return FIRST_TRIAL * (1 << min(max(0, claims - FIRST_SUSPECT), MOST_DOUBLINGS))


def sentence(suspicion: Suspicion, claims: int) -> str:
    """Why a run is quarantined, and what to do."""
    why = words(suspicion).removeprefix("suspect: ")
    if suspicion.alone < ALONE and suspicion.solo < SOLO:
        why = f"claimed {counted(claims, 'time')} without progress"
    return f"{why}: it seems to end its worker. Look at its step in flight, then resume it."


def words(suspicion: Suspicion) -> str:
    """What stands against a run, for a person; empty if nothing does."""
    if not suspicion.is_suspect:
        return ""
    if suspicion.alone:
        return f"suspect: its worker died {_times(suspicion.alone)} while it ran alone{_more(suspicion)}"
    if suspicion.solo:
        return f"suspect: its worker died {_times(suspicion.solo)} while it was the only suspect there"
    return f"suspect: its worker died {_times(suspicion.deaths)} while it ran, among other suspects"


def _more(suspicion: Suspicion) -> str:
    beside = suspicion.solo - suspicion.alone
    return f", and {_times(beside)} while it was the only suspect there" if beside else ""


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
