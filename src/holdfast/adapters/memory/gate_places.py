"""A run's place at the gate of its queue: waiting, called out of line, or begun. The caller holds the lock."""

from __future__ import annotations

from datetime import datetime

from holdfast.adapters.memory.tables import Line, Standing, Tables
from holdfast.ports.inbox import Kind
from holdfast.ports.runs import NewRun, RunRow


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
        line = tables.lines.setdefault(run.queue, Line())
        line.shares.setdefault(standing.share, line.time)


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
