"""Runs as a list: rows on a terminal, tab-separated lines in a pipe, objects for programs."""

from __future__ import annotations

import re

from holdfast.authoring.handle import RunView
from holdfast.cli.output import Output, Part, ago_text, status_part
from holdfast.client.inspect.objects import at_text, run_object


def print_runs(views: list[RunView], out: Output) -> None:
    """Runs as rows, or as objects."""
    if out.is_json:
        for view in views:
            out.record(run_object(view))
    elif out.is_terminal:
        rows = [_row(view) for view in views]
        if rows:
            out.table(("RUN", "STATUS", "WORKFLOW", "AGE", "DOING"), rows)
    else:
        out.table(
            (),
            [(x.id, status_word(x), label_of(x), at_text(x.created_at), x.queue, news_of(x)) for x in views],
        )


def status_word(view: RunView) -> str:
    """The status, or a note that the run's row cannot be read in full."""
    return "damaged" if view.damage else view.status.value


def label_of(view: RunView) -> str:
    """The workflow and its version."""
    return f"{view.workflow} {view.version}" if view.version else view.workflow


def news_of(view: RunView) -> str:
    """What the run is doing; for one that failed or was cancelled, the first line of the reason."""
    return view.waiting or view.error


_FAILED_STEP = re.compile(r"^StepFailed: (step .+?) failed after [\d,]+ attempts?: ")


def _short(news: str) -> str:
    """What fits on a line. Of a failed step its own error, which would else be cut off: `show` has the rest."""
    return _FAILED_STEP.sub(r"\1: ", news)


def _row(view: RunView) -> tuple[Part, ...]:
    age = ago_text(view.seen_at - view.created_at)
    return view.id, status_part(status_word(view)), label_of(view), age, _short(news_of(view))
