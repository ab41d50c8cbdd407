"""A timetable: the slots of a schedule, as instants. Cron, a period, or a list of instants.

Slots follow from the timetable alone, never from when they are computed: those of a period are counted from `starts`,
or from 1970. So every worker finds the same slots, and a slot has the same name everywhere.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from typing import cast

import msgspec

from holdfast.core.cron import check_cron, cron_slots, cron_words, is_fixed, zone_of
from holdfast.core.durations import Duration, format_duration, parse_duration
from holdfast.core.instants import LATEST, LONGEST_WAIT, kept_instant
from holdfast.errors import InvalidSchedule

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NONE = timedelta(0)
SHORTEST = timedelta(seconds=1)
MOST_INSTANTS = 1000
_PROBED = 200
"""Number of slots whose distances are checked against a jitter."""


class Timetable(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When: one of `cron`, `every` and `at`. A slot may be at `starts`, but not at `ends`."""

    cron: str = ""
    every: timedelta | None = None
    at: tuple[datetime, ...] = ()
    tz: str = "UTC"
    starts: datetime | None = None
    ends: datetime | None = None
    jitter: timedelta = _NONE

    @property
    def has_local_slots(self) -> bool:
        """Whether slots are local times, each of which is taken only once even if the clock or the zone changes."""
        return bool(self.cron) and is_fixed(self.cron)

    def slots(self, after: datetime) -> Iterator[datetime]:
        """The slots after `after`, in order, each in the zone of the timetable."""
        begin = after
        if self.starts is not None and self.starts > after:
            begin = self.starts - timedelta(microseconds=1)
        for slot in self._all(begin):
            if self.ends is not None and slot >= self.ends:
                return
            yield slot

    def _all(self, after: datetime) -> Iterator[datetime]:
        zone = zone_of(self.tz)
        if self.cron:
            yield from cron_slots(self.cron, zone, after)
        elif self.every is not None:
            origin = self.starts or _EPOCH
            number = (after - origin) // self.every + 1
            while (slot := origin + number * self.every) < LATEST:
                yield slot
                number += 1
        else:
            yield from self.at[bisect_right(self.at, after) :]

    def delay(self, name: str, slot: datetime) -> timedelta:
        """How long after its slot a run begins: random, but the same for every worker."""
        if not self.jitter:
            return _NONE
        digest = hashlib.sha256(f"{name}\0{slot.astimezone(UTC).isoformat()}".encode()).digest()
        share = int.from_bytes(digest[:8], "big") / 2**64
        return timedelta(microseconds=int(self.jitter / timedelta(microseconds=1) * share))

    def words(self) -> str:
        """For people: 'At 03:00 every day (Europe/Berlin)', 'every 15 min'."""
        if self.cron:
            text = f"{cron_words(self.cron)} ({self.tz})"
        elif self.every is not None:
            text = f"every {format_duration(self.every)}"
        else:
            shown = ", ".join(one.isoformat() for one in self.at[:3])
            text = f"at {shown}" + (f" and {len(self.at) - 3} more times" if len(self.at) > 3 else "")
        if self.starts is not None:
            text += f", from {self.starts.isoformat()}"
        if self.ends is not None:
            text += f", before {self.ends.isoformat()}"
        return text


def make_timetable(
    *,
    cron: str | None = None,
    every: Duration | None = None,
    at: object = None,
    tz: str | None = None,
    starts: datetime | None = None,
    ends: datetime | None = None,
    jitter: Duration = _NONE,
) -> Timetable:
    """A checked timetable. Raises `InvalidSchedule`, which names what is wrong."""
    given = [name for name, value in (("cron", cron), ("every", every), ("at", at)) if value is not None]
    if len(given) != 1:
        raise InvalidSchedule(f"{' and '.join(given) or 'no time'} given: give exactly one of cron=, every= and at=.")
    if tz is not None and cron is None:
        raise InvalidSchedule(f"tz={tz!r} goes with cron= only: every= is elapsed time, at= has its own zones.")
    zone = "UTC" if tz is None else tz
    if not isinstance(zone, str):
        raise InvalidSchedule(f"tz={zone!r}: give the name of a zone, such as 'Europe/Berlin'.")
    zone_of(zone)
    made = Timetable(
        cron=check_cron(cron) if cron is not None else "",
        every=None if every is None else _period(every),
        at=() if at is None else _instants(at),
        tz=zone,
        starts=None if starts is None else kept_instant(starts, "starts="),
        ends=None if ends is None else kept_instant(ends, "ends="),
        jitter=parse_duration(jitter, what="jitter=", most=LONGEST_WAIT),
    )
    if next(made.slots(made.starts - SHORTEST if made.starts else _EPOCH), None) is None:
        raise InvalidSchedule("no slot lies between starts= and ends=: it would never run. Check both.")
    _check_jitter(made)
    return made


def _period(every: Duration) -> timedelta:
    period = parse_duration(every, what="every=", most=LONGEST_WAIT)
    if period < SHORTEST:
        raise InvalidSchedule(f"every={every!r}: give a period of at least 1 s.")
    return period


def _instants(at: object) -> tuple[datetime, ...]:
    if isinstance(at, datetime):
        at = [at]
    if not isinstance(at, list | tuple) or not at:
        raise InvalidSchedule(f"at={at!r}: give a list of aware datetimes.")
    given = cast("Sequence[datetime]", at)
    if len(given) > MOST_INSTANTS:
        raise InvalidSchedule(
            f"at= has {len(given):,} instants, at most {MOST_INSTANTS:,} are kept. Use cron= or every=."
        )
    return tuple(sorted({kept_instant(one, "at=") for one in given}))


def _check_jitter(made: Timetable) -> None:
    """Refuses a jitter that reaches into the next slot: it would be unclear which of two is late."""
    if not made.jitter:
        return
    begin = made.starts - SHORTEST if made.starts is not None else datetime(2026, 1, 1, tzinfo=UTC)
    slots = list(islice(made.slots(begin), _PROBED))
    shortest = min((second - first for first, second in pairwise(slots)), default=None)
    if shortest is not None and made.jitter >= shortest:
        raise InvalidSchedule(
            f"jitter={format_duration(made.jitter)} is not shorter than the {format_duration(shortest)} between two "
            "slots. Give less."
        )
