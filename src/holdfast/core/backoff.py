"""How long a run is delayed if no worker has its definition or something that it needs."""

from __future__ import annotations

from datetime import timedelta

FIRST, LONGEST = timedelta(seconds=5), timedelta(minutes=5)


def put_off(times: int) -> timedelta:
    """Five seconds at first, twice as long each time in a row, five minutes at most. (PostgreSQL's `claim` says the
    same.) `times`: how often it was put off before."""
    return min(FIRST * (1 << min(times, 10)), LONGEST)
