"""`holdfast show`: one run, told from its journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, cast

import click
import msgspec

from holdfast.authoring.handle import RunView
from holdfast.cli.asking import asking, find_run
from holdfast.cli.listing import label_of, print_runs, run_object, status_word
from holdfast.cli.loading import opened_client
from holdfast.cli.machines import MachinePart
from holdfast.cli.output import Output, Part, at_text, standing, status_part
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.cli.telling import entry_parts, event_object, since_text
from holdfast.client.client import Client
from holdfast.client.redacting import redaction_for
from holdfast.client.run import ClientRun, view_of
from holdfast.core import events as e
from holdfast.core.durations import format_duration
from holdfast.core.entry import Entry, say
from holdfast.core.failure import Failure
from holdfast.core.redaction import Redaction
from holdfast.core.timeline import Timeline
from holdfast.core.turn import UNREADABLE, Turn
from holdfast.errors import CorruptJournal
from holdfast.ports.runs import Filter

CHILDREN = 500
"""How many children are shown."""

SHOWN_VALUE = 400


@click.command("show", cls=HoldfastCommand)
@click.argument("run_id", metavar="RUN")
@asking()
def command(run_id: str, target: str | None, url: str | None, is_json: bool) -> None:
    """Show one run: what it is doing, its facts, its timeline, errors with tracebacks, children. Times are UTC."""
    run_async(_show(run_id, target, url, Output(is_json=is_json)))


class Story(msgspec.Struct, frozen=True):
    """Everything that is shown of a run."""

    view: RunView
    redaction: Redaction
    turns: list[Turn]
    payloads: dict[str, bytes]
    exposed: dict[str, Any]
    children: list[RunView]

    def value(self, event: e.Carrier) -> Any:
        """The payload of an event."""
        return self.redaction.value(msgspec.json.decode(self.payloads[event.blob] if event.blob else event.value))

    @property
    def timeline(self) -> Timeline:
        """How it got here."""
        line = Timeline()
        for turn in self.turns:
            line.take(turn)
        return line

    @property
    def started(self) -> e.Started:
        """The first event."""
        return cast("e.Started", self.turns[0].events[0])

    @property
    def end(self) -> e.Completed | e.Failed | e.Cancelled | None:
        """The last event, if the run has ended."""
        last = self.turns[-1].events[-1]
        return last if isinstance(last, e.Completed | e.Failed | e.Cancelled) else None


async def _show(run_id: str, target: str | None, url: str | None, out: Output) -> None:
    async with opened_client(target, url) as client:
        story = await read_story(client, run_id)
    if out.is_json:
        out.record(_object(story))
    else:
        _print(story, out)


async def read_story(client: Client, run_id: str) -> Story:
    """Reads all of it; an id that is not there gets a hint."""
    row = await find_run(client, run_id)
    turns = await ClientRun[Any](client, row.id, None).history()
    row = await client.store.get(run_id) or row
    ends = [turns[0].events[0], turns[-1].events[-1]]
    names = [event.blob for event in ends if isinstance(event, e.Carrier) and event.blob]
    exposures, damaged = await _exposures(client, run_id)
    blobs = await client.store.get_blobs([*names, *(blob for _, _, blob in exposures if blob)])
    children, _ = await client.page(Filter(parent=run_id), limit=CHILDREN)
    redaction = await redaction_for(client.store, row)
    return Story(
        view=view_of(row, client.store.clock.now()),
        redaction=redaction,
        turns=turns,
        payloads=dict(blobs),
        exposed={name: redaction.value(_shown_value(blobs[blob] if blob else value)) for name, value, blob in exposures}
        | damaged,
        children=children[::-1],
    )


async def _exposures(client: Client, run_id: str) -> tuple[Sequence[tuple[str, bytes, str]], dict[str, Any]]:
    """The values that the run shows; instead of damaged ones, why they are not shown."""
    try:
        return await client.store.exposures(run_id), {}
    except CorruptJournal as error:
        return (), {"(damaged)": str(error)}


# -- parts -------------------------------------------------------------------------------------------------------------


class ShownPart(Protocol):
    """A part of the picture below the facts. What another kind of run has to say is another one of these."""

    def show(self, story: Story, out: Output) -> None:
        """For people; nothing if the run has no such thing."""
        ...

    def fields(self, story: Story) -> dict[str, Any]:
        """For programs."""
        ...


class TimelinePart:
    """How it got here."""

    def show(self, story: Story, out: Output) -> None:
        """Each entry with its time since the beginning."""
        line = story.timeline
        _heading(out, "timeline")
        if line.omitted:
            out.line((f"  … {line.omitted} earlier entries", "dim"))
        rows = [(since_text(entry.at, story.turns[0].at), entry_parts(entry)) for entry in line.entries]
        widest = max(len(since) for since, _ in rows)
        for since, what in rows:
            out.hanging((f"  {since:>{widest}}  ", "dim"), what)

    def fields(self, story: Story) -> dict[str, Any]:
        """Entries, and the events they were made from."""
        return {
            "timeline": [_entry(entry) for entry in story.timeline.entries],
            "events": [event_object(event, turn) for turn in story.turns for event in turn.events],
        }


class FailuresPart:
    """What went wrong, and where."""

    def show(self, story: Story, out: Output) -> None:
        """Each with its traceback."""
        for title, failure in _failures(story.turns):
            _heading(out, title)
            out.block(failure.traceback or f"{failure.type}: {failure.message}", style="red")

    def fields(self, story: Story) -> dict[str, Any]:
        """The one that ended the run; those of steps are in the events."""
        end = story.end
        return {"failure": _failure(end.failure) if isinstance(end, e.Failed) else None}


class ChildrenPart:
    """The runs it started."""

    def show(self, story: Story, out: Output) -> None:
        """As `runs` lists them."""
        if story.children:
            _heading(out, "children")
            print_runs(story.children, out)

    def fields(self, story: Story) -> dict[str, Any]:
        """Their rows."""
        return {"children": [run_object(child) for child in story.children]}


PARTS: tuple[ShownPart, ...] = (MachinePart(), TimelinePart(), FailuresPart(), ChildrenPart())
"""In the order in which they are shown."""


# -- for people --------------------------------------------------------------------------------------------------------


def _print(story: Story, out: Output) -> None:
    view = story.view
    out.line(("run ", "dim"), (view.id, "bold"), " ", *_sentence(story))
    out.line("")
    out.fields(_facts(story))
    for part in PARTS:
        part.show(story, out)


def _heading(out: Output, text: str) -> None:
    out.line("")
    out.line((text, "bold"))


def _sentence(story: Story) -> list[Part]:
    view, end = story.view, story.end
    if end is None:
        return standing(status_word(view), view.waiting)
    took = format_duration((view.ended_at or view.updated_at) - view.created_at)
    status = status_part(view.status.value)
    match end:
        case e.Completed():
            return [status, f" after {took}"]
        case e.Failed():
            return [status, f" after {took}: {end.failure.type}: {end.failure.message}"]
        case e.Cancelled():
            how = " (killed)" if end.imposed else ""
            return [status, f"{how} after {took}" + (f": {end.reason}" if end.reason else "")]


def _facts(story: Story) -> list[tuple[str, Part]]:
    view, end = story.view, story.end
    held = view.worker if end is None and view.status.value == "running" else ""
    return [
        ("workflow", label_of(view)),
        ("damaged", "; ".join(view.damage)),
        ("input", _short(story.value(story.started))),
        ("result", _short(story.value(end)) if isinstance(end, e.Completed) else ""),
        *((f"shows {name}", _short(value)) for name, value in story.exposed.items()),
        ("created", at_text(view.created_at)),
        ("started", at_text(view.started_at)),
        ("ended", at_text(view.ended_at)),
        ("deadline", at_text(view.deadline)),
        ("queue", view.queue + (f", priority {view.priority}" if view.priority else "")),
        ("key", view.key),
        ("attributes", " ".join(f"{name}={text}" for name, text in view.attributes.items())),
        ("parent", view.parent),
        ("retry of", story.started.retried_from),
        ("last worker", f"{held}, epoch {view.epoch}" if held else ""),
        ("left running", ", ".join(end.left) if end is not None else ""),
        ("not undone", ", ".join(end.undone) if isinstance(end, e.Failed | e.Cancelled) else ""),
    ]


def _shown_value(value: bytes) -> Any:
    try:
        return msgspec.json.decode(value)
    except UNREADABLE as error:
        return f"cannot be read: {error}"


def _short(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= SHOWN_VALUE else f"{text[:SHOWN_VALUE]}… ({len(text)} characters; --json shows all)"


def _failures(turns: Sequence[Turn]) -> list[tuple[str, Failure]]:
    """The last failure of each step that did not get over it, and the one that ended the run."""
    found: dict[str, tuple[str, Failure]] = {}
    for turn in turns:
        for event in turn.events:
            match event:
                case e.AttemptFailed():
                    found[event.key] = (f"error of step {event.key}, attempt {event.attempt}", event.failure)
                case e.StepFailed():
                    found[event.key] = (f"error of step {event.key}", event.failure)
                case e.StepCompleted():
                    found.pop(event.key, None)
                case e.RetryPlanned() | e.Failed():
                    found[""] = ("error", event.failure)
                case e.PassStarted() | e.Continued() | e.Completed():
                    found.pop("", None)
                case _:
                    pass
    return list(found.values())


# -- for programs ------------------------------------------------------------------------------------------------------


def _object(story: Story) -> dict[str, Any]:
    end = story.end
    whole = {
        **run_object(story.view),
        "input": story.value(story.started),
        "result": story.value(end) if isinstance(end, e.Completed) else None,
        "exposed": story.exposed,
    }
    for part in PARTS:
        whole |= part.fields(story)
    return whole


def _failure(failure: Failure) -> dict[str, str]:
    return {"type": failure.type, "message": failure.message, "traceback": failure.traceback}


def _entry(entry: Entry) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(entry)
    return {**shown, "text": say(entry)}
