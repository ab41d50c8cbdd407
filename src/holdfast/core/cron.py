"""Cron expressions: checked, in words, and as instants across changes of a zone's offset.

cronsim parses an expression and walks the local calendar; what a local time means as an instant is decided here, the
same way for five and six fields:

- Fixed times (no `*` and no `/` in minute and hour) are local times. One that occurs twice in autumn runs once, the
  first time; one that does not exist in spring runs at the next valid minute.
- With a wildcard or a step in minute or hour, elapsed time counts: both hours of an autumn night run, and what does not
  exist in spring does not run.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING

from holdfast.errors import InvalidSchedule

if TYPE_CHECKING:  # imported where they are used: most processes have no schedule
    from zoneinfo import ZoneInfo

    from cronsim import CronSim

_DAY = timedelta(days=1)
_WIDEST = timedelta(hours=26)
"""Larger than any change of offset: Samoa once skipped a day."""

_NONE, _SECOND = timedelta(0), timedelta(seconds=1)
_PROBE = datetime(2000, 1, 1)  # noqa: DTZ001 - a local time: any will do to read an expression
_LAST_YEAR = 9990
MOST_TEXT = 200


@lru_cache(maxsize=256)
def zone_of(name: str) -> ZoneInfo:
    """The zone of that name. Raises `InvalidSchedule` if there is none."""
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InvalidSchedule(
            f"tz={name!r}: there is no such time zone. Use a name of the IANA database, such as 'Europe/Berlin' or "
            "'UTC'. If that name is right, this system has no zone data: pip install tzdata."
        ) from None


def check_cron(text: object) -> str:
    """The expression with single spaces. Raises `InvalidSchedule`, which says what is wrong."""
    if not isinstance(text, str) or len(text) > MOST_TEXT:
        raise InvalidSchedule(f"cron={repr(text)[:60]}: give text such as '0 3 * * *'.")
    expression = " ".join(text.split())
    if len(expression.split(" ")) not in (5, 6):
        raise InvalidSchedule(
            f"cron={text!r}: {len(expression.split())} fields. Give five (minute, hour, day, month, weekday) or six, "
            "with seconds first."
        )
    from cronsim import CronSimError

    try:
        parsed = _calendar(expression, _PROBE)
    except CronSimError as error:
        raise InvalidSchedule(f"cron={text!r}: {_problem(str(error))}.") from None
    except (AssertionError, ValueError, IndexError, TypeError):  # what cronsim does not foresee, such as "MON#1/2"
        raise InvalidSchedule(f"cron={text!r} cannot be read. An example: '0 3 * * MON-FRI'.") from None
    if next(parsed, None) is None:
        raise InvalidSchedule(f"cron={text!r}: this date does not exist. Check day and month.")
    return expression


def _problem(text: str) -> str:
    field = text.removeprefix("Bad ")
    return f"the {field} is not valid, or never occurs" if field != text else text.lower()


def cron_words(expression: str) -> str:
    """The expression for people: 'At 03:00 every day'."""
    return _calendar(expression, _PROBE).explain()


def is_fixed(expression: str) -> bool:
    """Whether its slots are local times, none of which occurs twice."""
    minute, hour = expression.split(" ")[-5:-3]
    return not set("*/") & set(minute + hour)


def cron_slots(expression: str, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """Its instants after `after`, in order, each in the zone."""
    return _fixed(expression, zone, after) if is_fixed(expression) else _elapsed(expression, zone, after)


def _fixed(expression: str, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    local = after.astimezone(zone)
    start = local.replace(tzinfo=None, fold=0)
    if (after - _WIDEST).astimezone(zone).utcoffset() != local.utcoffset():  # what was left out may still be to come
        start -= _WIDEST
    last = after
    for wall in _walls(expression, start):
        at = _instant_of(wall, zone)
        if at > last:
            last = at
            yield at.astimezone(zone)


def _elapsed(expression: str, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """Slots by elapsed time. Between two changes of offset local time is elapsed time, so it walks the calendar up to a
    change and starts again behind it."""
    base, start = after, after.astimezone(zone).replace(tzinfo=None, fold=0)
    while True:
        offset = base.astimezone(zone).utcoffset() or _NONE
        change = None
        for wall in _walls(expression, start):
            slot = (wall - offset).replace(tzinfo=UTC)
            change = _next_change(zone, base, slot)
            if change is not None:
                break
            base = slot
            yield slot.astimezone(zone)
        if change is None:
            return
        base, start = change, change.astimezone(zone).replace(tzinfo=None, fold=0) - _SECOND


def _calendar(expression: str, start: datetime) -> CronSim:
    """A walk over local times. Without a zone, cronsim applies no rules for changes of offset."""
    from cronsim import CronSim

    return CronSim(expression, start)


def _walls(expression: str, start: datetime) -> Iterator[datetime]:
    """The matching local times after `start`, up to the end of the calendar."""
    try:
        for wall in _calendar(expression, start):
            if wall.year >= _LAST_YEAR:
                return
            yield wall
    except (OverflowError, ValueError):
        return


def _instant_of(wall: datetime, zone: ZoneInfo) -> datetime:
    """The instant of a local time: the first of two; for a skipped time, the end of the gap."""
    at = wall.replace(tzinfo=zone).astimezone(UTC)
    if at.astimezone(zone).replace(tzinfo=None, fold=0) == wall:
        return at
    return _change_between(zone, wall.replace(tzinfo=zone, fold=1).astimezone(UTC), at)


def _next_change(zone: ZoneInfo, low: datetime, high: datetime) -> datetime | None:
    """The first instant after `low`, up to `high`, with a different offset. Searches day by day."""
    offset, at = low.astimezone(zone).utcoffset(), low
    while at < high:
        until = min(at + _DAY, high)
        if until.astimezone(zone).utcoffset() != offset:
            return _change_between(zone, at, until)
        at = until
    return None


def _change_between(zone: ZoneInfo, low: datetime, high: datetime) -> datetime:
    """The instant at which the offset of `low` ends. Offsets change at whole seconds."""
    offset = low.astimezone(zone).utcoffset()
    first, last = int(low.timestamp()), int(high.timestamp())
    while last - first > 1:
        middle = (first + last) // 2
        if datetime.fromtimestamp(middle, zone).utcoffset() == offset:
            first = middle
        else:
            last = middle
    return datetime.fromtimestamp(last, UTC)
