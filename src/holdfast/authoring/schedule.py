"""`Schedule`: starts a workflow at times given by cron, a period or a list.

A definition that knows no app and no store. It is checked when it is made, so no worker starts with a wrong one; the
call itself binds and encodes its arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar, get_args, overload

import msgspec

from holdfast.authoring.script.workflows import Call
from holdfast.core.durations import Duration, parse_duration
from holdfast.core.ids import check_name
from holdfast.core.instants import LONGEST_KEPT
from holdfast.core.references import references_in
from holdfast.core.schedule import Definition, Missed, Overlap, Work
from holdfast.core.timetable import make_timetable
from holdfast.errors import DefinitionError, InvalidInput, InvalidSchedule

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

MOST_NAME = 180
"""Maximum bytes of a name: the id of each run contains it and the slot."""

MOST_ARGUMENTS = 256 * 1024


class Schedule(Generic[R_co]):
    """A workflow that runs at certain times: `Schedule("nightly", reprice([]), cron="0 3 * * *", tz="Europe/Berlin")`.

    - `cron`: five fields, or six with seconds first; in the zone `tz` (default UTC)
    - `every`: a period of at least 1 s, counted from `starts`, or from 1970
    - `at`: aware datetimes
    - `overlap`: what to do when the run before is still open: "skip" the slot (default), "buffer_one" or "buffer_all"
      to start it afterwards, "cancel" or "kill" that run first, or "allow" both
    - `missed`: which slots to run after a downtime: the "last" (default), "all" or "none" of those of the last
      `catch_up` (default 1 h); older ones are counted
    - `jitter`: begin each run up to this much later, at random
    - `starts`, `ends`: no slot is before `starts`, and none at or after `ends`
    - `times`: the maximum number of runs
    - `queue`: the queue of its runs

    Each slot is one run, named after schedule and slot: `nightly@2026-03-29T03:00:00+02:00`.
    """

    @overload
    def __init__(
        self,
        name: str,
        call: Call[R_co],
        *,
        cron: str,
        tz: str = ...,
        overlap: Overlap = ...,
        missed: Missed = ...,
        catch_up: Duration = ...,
        jitter: Duration = ...,
        starts: datetime | None = ...,
        ends: datetime | None = ...,
        times: int | None = ...,
        queue: str = ...,
    ) -> None: ...
    @overload
    def __init__(
        self,
        name: str,
        call: Call[R_co],
        *,
        every: Duration,
        overlap: Overlap = ...,
        missed: Missed = ...,
        catch_up: Duration = ...,
        jitter: Duration = ...,
        starts: datetime | None = ...,
        ends: datetime | None = ...,
        times: int | None = ...,
        queue: str = ...,
    ) -> None: ...
    @overload
    def __init__(
        self,
        name: str,
        call: Call[R_co],
        *,
        at: datetime | Sequence[datetime],
        overlap: Overlap = ...,
        missed: Missed = ...,
        catch_up: Duration = ...,
        jitter: Duration = ...,
        starts: datetime | None = ...,
        ends: datetime | None = ...,
        times: int | None = ...,
        queue: str = ...,
    ) -> None: ...
    def __init__(
        self,
        name: str,
        call: Call[R_co],
        *,
        cron: str | None = None,
        every: Duration | None = None,
        at: datetime | Sequence[datetime] | None = None,
        tz: str | None = None,
        overlap: Overlap = "skip",
        missed: Missed = "last",
        catch_up: Duration = "1h",
        jitter: Duration = 0,
        starts: datetime | None = None,
        ends: datetime | None = None,
        times: int | None = None,
        queue: str = "default",
    ) -> None:
        self.name: str = check_schedule_name(name)
        self.call: Call[R_co] = call
        where = f"Schedule({name!r})"
        try:
            _check_choices(overlap, missed, times)
            timetable = make_timetable(cron=cron, every=every, at=at, tz=tz, starts=starts, ends=ends, jitter=jitter)
            self.definition: Definition = Definition(
                timetable=timetable,
                work=_work(call, check_name(queue, "queue")),
                overlap=overlap,
                missed=missed,
                catch_up=parse_duration(catch_up, what="catch_up=", most=LONGEST_KEPT),
                times=times,
            )
        except InvalidInput as error:  # it says what is wrong; here is where
            raise type(error)(f"{where}: {error}") from None

    def __repr__(self) -> str:
        return f"<Schedule {self.name}: {self.call.spec.label}, {self.definition.timetable.words()}>"


def check_schedule_name(name: object) -> str:
    """Checks that ids can be made of the name."""
    checked = check_name(name, "the name of a schedule")
    if "@" in checked:
        raise InvalidSchedule(
            f"Schedule({name!r}): '@' stands between schedule and slot in the ids of runs. Leave it out."
        )
    if len(checked.encode()) > MOST_NAME:
        raise InvalidSchedule(f"Schedule({checked[:40]!r}…): a name has at most {MOST_NAME} bytes. Shorten it.")
    return checked


def definitions_of(schedules: Iterable[Schedule[Any]]) -> dict[str, Definition]:
    """The definitions of schedules by name. Raises `DefinitionError` if two have one name."""
    found: dict[str, Definition] = {}
    if not isinstance(schedules, Iterable):
        raise DefinitionError(f"App(schedules=[…]) takes a list of schedules, not {schedules!r}")
    for one in schedules:
        if not isinstance(one, Schedule):
            raise DefinitionError(f"App(schedules=[…]) takes schedules, not {one!r}")
        if one.name in found:
            raise DefinitionError(f"two schedules have the name {one.name!r}: give each its own name")
        found[one.name] = one.definition
    return found


def _check_choices(overlap: object, missed: object, times: object) -> None:
    for what, value, choices in (("overlap", overlap, get_args(Overlap)), ("missed", missed, get_args(Missed))):
        if value not in choices:
            raise InvalidSchedule(f"{what}={value!r}: use one of {', '.join(choices)}.")
    if times is not None and (isinstance(times, bool) or not isinstance(times, int) or times < 1):
        raise InvalidSchedule(f"times={times!r}: give a whole number of at least 1, or None for no end.")


def _work(call: Call[Any], queue: str) -> Work:
    if not isinstance(call, Call):
        raise InvalidSchedule(f"takes a call such as reprice([]), not {call!r}.")
    if len(call.args) + len(call.spec.definition) > MOST_ARGUMENTS:
        raise InvalidSchedule(
            f"the arguments of {call.spec.name} take {len(call.args):,} bytes; a schedule keeps at most "
            f"{MOST_ARGUMENTS:,}. Pass a key by which the workflow looks the rest up."
        )
    if references_in(call.args):
        raise InvalidSchedule(
            f"the arguments of {call.spec.name} refer to a blob, which would be collected before the schedule ends. "
            "Store the blob in the workflow, or give the bytes themselves."
        )
    spec = call.spec
    return Work(
        workflow=spec.name,
        version=spec.version,
        code=spec.code,
        style=spec.style,
        queue=queue,
        keep=spec.keep,
        deadline=spec.deadline,
        args=msgspec.Raw(call.args),
        flow=spec.definition,
    )
