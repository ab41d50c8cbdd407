"""The gate of a queue: the places of runs (waiting, called out of line, begun) and which of them a claim admits.

The caller holds the lock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from itertools import islice

import msgspec

from holdfast.adapters.memory.tables import Line, Standing, Tables
from holdfast.core.gate import MANY, OPEN, Gate, Pick, line, room, time_after, times_after
from holdfast.core.rate import spent
from holdfast.core.status import Status
from holdfast.core.turn import micros
from holdfast.ports.inbox import Kind
from holdfast.ports.leases import ClaimRequest
from holdfast.ports.runs import NewRun, RunRow

_OPEN = {Status.PENDING, Status.RUNNING}


def share_at_gate(tables: Tables, new: NewRun) -> str:
    """The share under which a new run waits at its queue's gate; "" if it does not wait there."""
    started, queue = new.started, tables.queues.get(new.started.queue)
    if new.rides or not (started.share or (queue is not None and queue.gate.is_shut)):
        return ""
    return started.share or started.workflow


def wait(tables: Tables, run: RunRow, share: str, now: datetime) -> None:
    """Makes a new run wait at the gate, if it has a share there."""
    if share:
        stand(tables, run, Standing(share, "waits"), now)


def stand(tables: Tables, run: RunRow, standing: Standing, now: datetime) -> None:
    """Records the run's place at the gate, and lines its share up if it waits."""
    tables.standings[run.no] = standing
    line_up(tables, run, now)


def line_up(tables: Tables, run: RunRow, now: datetime) -> None:
    """Puts the run's share in line, if the run waits at the gate and is due."""
    standing, due = tables.standings.get(run.no), run.available_at
    if standing is not None and standing.how == "waits" and not run.instance and due and due <= now:
        tables.lines.setdefault(run.queue, Line()).join(standing.share)


def begin(tables: Tables, no: int) -> None:
    """Records that a claimed or taken run has begun."""
    standing = tables.standings.get(no)
    if standing is not None:
        tables.standings[no] = Standing(standing.share, "begun")


def give_place_back(tables: Tables, no: int, now: datetime) -> None:
    """Makes a run that was released before its first turn wait again."""
    run, standing = tables.runs[no], tables.standings.get(no)
    if standing is not None and run.started_at is None and not run.instance:
        stand(tables, run, Standing(standing.share, "waits"), now)


def wake(tables: Tables, run: RunRow, kind: Kind, now: datetime) -> None:
    """A message arrived. A cancel or a pause calls the run out of line."""
    standing = tables.standings.get(run.no)
    if standing is not None and standing.how != "begun":
        is_called = kind in {"cancel", "pause"} or standing.how == "called"
        stand(tables, run, Standing(standing.share, "called" if is_called else "waits"), now)


def waiting_at(tables: Tables, queue: str, now: datetime) -> list[RunRow]:
    """The runs that wait at the gate of a queue and are due."""
    return [
        run
        for no, standing in tables.standings.items()
        if standing.how == "waits"
        and (run := tables.runs[no]).queue == queue
        and not run.instance
        and run.status in _OPEN
        and run.available_at is not None
        and run.available_at <= now
    ]


def begun_of(tables: Tables, queue: str) -> list[RunRow]:
    """The runs of a queue that have a place."""
    return [
        run
        for no, standing in tables.standings.items()
        if standing.how == "begun" and (run := tables.runs[no]).queue == queue and run.ended_at is None
    ]


class Admitted(msgspec.Struct):
    """The runs that a gate admits, and the state this leaves behind."""

    picks: list[Pick[RunRow]]
    next_at: int | None = None


def admitted(
    tables: Tables,
    request: ClaimRequest,
    queue: str,
    now: datetime,
    *,
    place: Callable[[RunRow], tuple[int, datetime | None, int]],
    put_off: Callable[[list[RunRow]], None],
    elsewhere: Collection[tuple[str, str]],
) -> Admitted:
    """The runs that the gate admits for this worker, in order. `put_off`: runs that no live worker can run."""
    worker, only, waiting = request.worker, request.only, waiting_at(tables, queue, now)
    if not waiting:
        return Admitted([])
    in_line = tables.lines.setdefault(queue, Line())
    for run in waiting:
        in_line.join(tables.standings[run.no].share)
    stored = tables.queues.get(queue)
    gate = OPEN if stored is None else stored.gate
    counted = [run for run in begun_of(tables, queue) if not (gate.frees_parked and is_parked(run, now))]
    held = sum(run.instance == worker.instance for run in counted)
    space = room(gate, request.limit, begun=len(counted), held=held, until=in_line.until, now=micros(now))
    if not space.count:
        return Admitted([], space.next_at)
    begun = Counter(tables.standings[run.no].share for run in counted)
    waits = Counter(tables.standings[run.no].share for run in waiting)

    def runs_of(share: str) -> Iterator[RunRow]:
        here = sorted((run for run in waiting if tables.standings[run.no].share == share), key=place)
        if not here:
            in_line.leave(share)
        foreign = [run for run in here if (run.workflow, run.version) not in worker.definitions]
        put_off([run for run in foreign if (run.workflow, run.version) not in elsewhere])
        mine = (run for run in here if (run.workflow, run.version) in worker.definitions)
        return (run for run in mine if not only or run.id in only)

    shares = sorted((time, share) for share, time in in_line.shares.items())
    found = line(
        shares,
        runs_of=runs_of,
        places_of=lambda share: _left(gate, begun[share]),
        has_many=lambda share: waits[share] > MANY,
        gate=gate,
        time=in_line.time,
    )
    return Admitted(list(islice(found, space.count)))


def let_in(tables: Tables, queue: str, picks: Sequence[Pick[RunRow]], now: datetime) -> None:
    """Starts these runs: their shares advance, those that have no more leave the line, and the rate is used."""
    if not picks:
        return
    in_line, stored = tables.lines[queue], tables.queues.get(queue)
    in_line.shares.update(times_after(picks))
    in_line.time = time_after(in_line.time, picks)
    still = {tables.standings[run.no].share for run in waiting_at(tables, queue, now)}
    for share in set(times_after(picks)) - still:
        in_line.leave(share)
    if stored is not None and stored.gate.interval:
        in_line.until = spent(stored.gate.interval, in_line.until, micros(now), len(picks))


def _left(gate: Gate, begun: int) -> int | None:
    return None if gate.share_at_once is None else gate.share_at_once - begun


def is_parked(run: RunRow, now: datetime) -> bool:
    is_due = run.status in _OPEN and run.available_at is not None and run.available_at <= now
    return not run.instance and not is_due
