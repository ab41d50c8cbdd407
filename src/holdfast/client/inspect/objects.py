"""Runs, events, entries and stories as programs read them: `--json` on the command line, answers over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, cast

import msgspec

from holdfast.authoring.handle import RunView
from holdfast.client.inspect.story import Story
from holdfast.core import events as e
from holdfast.core.entry import Entry, say
from holdfast.core.failure import Failure
from holdfast.core.machine_path import machine_path
from holdfast.core.turn import Turn
from holdfast.errors import CorruptJournal


def at_text(at: datetime | None) -> str:
    """An instant for programs and people: UTC, to the millisecond."""
    return "" if at is None else f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"


def run_object(view: RunView) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(view)
    shown["waiting"] = view.waiting
    return shown


def event_object(event: e.AnyEvent, turn: Turn, run: str, root: str) -> dict[str, Any]:
    """One event of the journal of a run, in the tree of that root. For compacted rows it gives only their number."""
    data: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(event))
    kind = data.pop("t")
    if isinstance(event, e.Compacted):
        data = {"rows": event.rows}
    return {
        "seq": turn.seq,
        "run": run,
        "root": root,
        "ordinal": turn.ordinal,
        "epoch": turn.epoch,
        "at": at_text(turn.at),
        "type": kind,
        "data": data,
    }


def entry_object(entry: Entry) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(entry)
    return {**shown, "text": say(entry)}


def failure_object(failure: Failure) -> dict[str, str]:
    """An error and its place."""
    return {"type": failure.type, "message": failure.message, "traceback": failure.traceback}


def machine_object(run_id: str, turns: Sequence[Turn]) -> dict[str, Any] | None:
    """The path of a machine's run; None for other runs, and where the beginning is compacted."""
    if not turns or not turns[0].events or not isinstance(turns[0].events[0], e.Started):
        return None
    try:
        path = machine_path(run_id, turns)
    except CorruptJournal:  # rows are missing; the story says so
        return None
    if path is None:
        return None
    return {
        "path": [{"key": visit.key, "state": visit.state} for visit in path.visits],
        "state": None if path.is_over else path.state,
        "undoable": path.undoable,
        "suspects": path.suspects,
    }


def run_detail(story: Story) -> dict[str, Any]:
    """A run with its input, its end and its exposed values."""
    end = story.end
    return {
        "input": story.input,
        "result": story.result,
        "exposed": story.exposed,
        "failure": failure_object(end.failure) if isinstance(end, e.Failed) else None,
        "retried_from": story.started.retried_from if story.started is not None else "",
        "is_compacted": story.is_compacted,
        "problems": story.problems,
        "limits": story.limits,
    }


def story_object(story: Story) -> dict[str, Any]:
    """How a run got here."""
    bands, crashes = story.holders
    return {
        "machine": machine_object(story.view.id, story.turns),
        "timeline": [entry_object(entry) for entry in story.line.entries],
        "omitted": story.line.omitted,
        "holders": cast("list[dict[str, Any]]", msgspec.to_builtins(bands)),
        "crashes": [{**msgspec.to_builtins(crash), "after_seconds": crash.after_seconds} for crash in crashes],
        "children": [run_object(child) for child in story.children],
    }
