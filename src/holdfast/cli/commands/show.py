"""`holdfast show`: shows one run, from its journal."""

from __future__ import annotations

from typing import Any, Protocol

import click
import msgspec

from holdfast.cli.entries import entry_parts, since_text
from holdfast.cli.machine_part import MachinePart
from holdfast.cli.options import find_run, store_options
from holdfast.cli.output import Output, Part, standing, status_part
from holdfast.cli.root import HoldfastCommand, run_async
from holdfast.cli.run_list import label_of, print_runs, status_word
from holdfast.cli.targets import opened_client
from holdfast.client.inspect.objects import at_text, event_object, run_detail, run_object, story_object
from holdfast.client.inspect.story import Story, read_story
from holdfast.core import events as e
from holdfast.core.durations import format_duration

SHOWN_VALUE = 400


@click.command("show", cls=HoldfastCommand)
@click.argument("run_id", metavar="RUN")
@store_options()
def command(run_id: str, target: str | None, url: str | None, is_json: bool) -> None:
    """Show one run: what it is doing, its facts, its timeline, errors with tracebacks, children. Times are UTC."""
    run_async(_show(run_id, target, url, Output(is_json=is_json)))


async def _show(run_id: str, target: str | None, url: str | None, out: Output) -> None:
    async with opened_client(target, url) as client:
        await find_run(client, run_id)
        story = await read_story(client, run_id)
    if out.is_json:
        out.record(_object(story))
    else:
        _print(story, out)


# -- parts -------------------------------------------------------------------------------------------------------------


class ShownPart(Protocol):
    """A part of the output below the facts. Other kinds of runs add parts of their own."""

    def show(self, story: Story, out: Output) -> None:
        """Prints the part for people; nothing if the run has none."""
        ...


class TimelinePart:
    """The timeline."""

    def show(self, story: Story, out: Output) -> None:
        """Prints each entry with its time since the beginning."""
        line = story.line
        if not line.entries:
            return
        _heading(out, "timeline")
        if line.omitted:
            out.line((f"  … {line.omitted} earlier entries", "dim"))
        rows = [(since_text(entry.at, story.turns[0].at), entry_parts(entry)) for entry in line.entries]
        widest = max(len(since) for since, _ in rows)
        for since, what in rows:
            out.hanging((f"  {since:>{widest}}  ", "dim"), what)


class FailuresPart:
    """The errors and their places."""

    def show(self, story: Story, out: Output) -> None:
        """Prints each error with its traceback."""
        for title, failure in story.failures:
            _heading(out, title)
            out.block(failure.traceback or f"{failure.type}: {failure.message}", style="red")


class ChildrenPart:
    """The runs that this run started."""

    def show(self, story: Story, out: Output) -> None:
        """Prints them as `runs` does."""
        if story.children:
            _heading(out, "children")
            print_runs(story.children, out)


PARTS: tuple[ShownPart, ...] = (MachinePart(), TimelinePart(), FailuresPart(), ChildrenPart())
"""The parts in their order."""


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
        *(("problem", (problem, "red")) for problem in story.problems),
        ("redacted", "; ".join(story.redacted)),
        ("input", "" if story.input is None else _short(story.input)),
        ("result", _short(story.result) if isinstance(end, e.Completed) else ""),
        *((f"shows {name}", _short(value)) for name, value in story.exposed.items()),
        ("created", at_text(view.created_at)),
        ("started", at_text(view.started_at)),
        ("ended", at_text(view.ended_at)),
        ("deadline", at_text(view.deadline)),
        ("queue", view.queue + (f", priority {view.priority}" if view.priority else "")),
        ("key", view.key),
        ("attributes", " ".join(f"{name}={text}" for name, text in view.attributes.items())),
        ("parent", view.parent),
        ("retry of", story.started.retried_from if story.started is not None else ""),
        ("last worker", f"{held}, epoch {view.epoch}" if held else ""),
        ("limits", "; ".join(story.limits)),
        ("left running", ", ".join(end.left) if end is not None else ""),
        ("not undone", ", ".join(end.undone) if isinstance(end, e.Failed | e.Cancelled) else ""),
    ]


def _short(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= SHOWN_VALUE else f"{text[:SHOWN_VALUE]}… ({len(text)} characters; --json shows all)"


# -- for programs ------------------------------------------------------------------------------------------------------


def _object(story: Story) -> dict[str, Any]:
    return {
        **run_object(story.view),
        **run_detail(story),
        **story_object(story),
        "events": [
            event_object(event, turn, story.view.id, story.view.root) for turn in story.turns for event in turn.events
        ],
    }
