"""Which of the runs that a dead worker held is to blame. Pure; the SQL of the stores follows these rules.

A run is a suspect if its worker died while holding it, and it is claimed again without progress. A worker instance
holds at most one suspect at a time, and fresh runs beside it, so a death is evidence: it counts against the only
suspect (`solo`), and more so if the worker held nothing else (`alone`). A fresh run beside an innocent suspect may also
kill the worker, twice before it becomes a suspect itself: that is why it takes four deaths beside others.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TypeAlias

import msgspec

from holdfast.core.plurals import counted

ALONE, SOLO = 2, 4
"""The number of deaths that quarantine a run: while its worker held nothing else, and while it was the only suspect."""

FIRST_TRIAL, MOST_DOUBLINGS = timedelta(minutes=1), 10
FIRST_SUSPECT = 2
"""The number of claims without progress at which a run is a suspect."""

Weight: TypeAlias = int
"""What a death adds to the only suspect: 1 to `solo`, 2 to both counts, 0 to neither."""


class Suspicion(msgspec.Struct, frozen=True, gc=False):
    """The evidence against a run: the deaths of its workers since it last made progress or was cleared."""

    deaths: int = 0
    solo: int = 0
    alone: int = 0

    @property
    def is_suspect(self) -> bool:
        return self.deaths > 0


NONE = Suspicion()


def weight(*, suspects: int, held: int) -> Weight:
    """What a death adds to the suspect, by how many suspects and how many runs the instance held."""
    return 0 if suspects != 1 else 2 if held == 1 else 1


def after_death(before: Suspicion, claims: int, added: Weight) -> Suspicion:
    """The evidence against a run after its holder died; none without a claim that counts."""
    if not claims:
        return NONE
    if not before.is_suspect:
        return Suspicion(1)
    return Suspicion(before.deaths + 1, before.solo + (added > 0), before.alone + (added > 1))


def taken_back(after: Suspicion, added: Weight) -> Suspicion:
    """The evidence as if the holder had not died: it is alive."""
    deaths = after.deaths - 1
    return Suspicion(deaths, after.solo - (added > 0), after.alone - (added > 1)) if deaths > 0 else NONE


def is_convicted(suspicion: Suspicion, claims: int, max_claims: int) -> bool:
    """Whether the run is quarantined instead of tried again. The limit on claims is the safety net of the rule."""
    return suspicion.alone >= ALONE or suspicion.solo >= SOLO or claims >= max_claims


def trial(claims: int) -> timedelta:
    """How long a suspect must survive to be cleared: a minute, doubled with each further claim."""
    return FIRST_TRIAL * (1 << min(max(0, claims - FIRST_SUSPECT), MOST_DOUBLINGS))


def sentence(suspicion: Suspicion, claims: int) -> str:
    """Why a run is quarantined, and what to do."""
    why = words(suspicion).removeprefix("suspect: ")
    if suspicion.alone < ALONE and suspicion.solo < SOLO:
        why = f"claimed {counted(claims, 'time')} without progress"
    return f"{why}: it seems to end its worker. Look at its step in flight, then resume it."


def words(suspicion: Suspicion) -> str:
    """The evidence in words; empty if there is none."""
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
