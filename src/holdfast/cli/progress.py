"""Progress of a command: a bar or a line on a terminal, nothing beside JSON. A batch also writes lines in a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import IO, Protocol, Self

from holdfast.authoring.batch.batch_plan import Counts
from holdfast.cli.output import Output, has_color, is_terminal

EVERY = 10.0
"""Seconds between two lines in a pipe."""


class Bar(Protocol):
    """Shows counts."""

    def show(self, counts: Counts) -> None: ...


@contextmanager
def progress_on(stream: IO[str], *, is_json: bool) -> Generator[Bar]:
    """A progress bar for the duration of the block."""
    if is_json:
        yield _Silent()
    elif is_terminal(stream):
        with _live(stream) as bar:
            yield bar
    else:
        yield _Lines(stream)


class _Silent:
    def show(self, counts: Counts) -> None:
        return


class _Lines:
    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._pace = Pace()
        self._said_at = time.monotonic()
        self._last = ""

    def show(self, counts: Counts) -> None:
        now = time.monotonic()
        is_over = counts.done == counts.total
        text = self._pace.text(counts, now)
        if text != self._last and (is_over or now - self._said_at >= EVERY):
            self._said_at, self._last = now, text
            self._stream.write(f"{text}\n")
            self._stream.flush()


class Pace:
    """Items per second since the first look, and the time left at that rate."""

    def __init__(self) -> None:
        self._first: tuple[float, int] | None = None

    def text(self, counts: Counts, now: float) -> str:
        """`4200 of 10000 done, 3 failed, 310/s, 19 s left`."""
        if self._first is None:
            self._first = (now, counts.done)
        began, before = self._first
        parts = [f"{counts.done} of {counts.total} done", f"{counts.failed} failed"]
        if counts.done > before and now > began:
            rate = (counts.done - before) / (now - began)
            parts.append(f"{rate:.0f}/s" if rate >= 1 else f"{rate * 60:.1f}/min")
            if counts.done < counts.total:
                parts.append(f"{seconds_text((counts.total - counts.done) / rate)} left")
        return ", ".join(parts)


def seconds_text(seconds: float) -> str:
    """In one or two units: `19 s`, `4 min 5 s`, `2 h 3 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


@contextmanager
def _live(stream: IO[str]) -> Generator[Bar]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(file=stream, no_color=not has_color(stream), highlight=False, markup=False, emoji=False)
    with Progress(BarColumn(), TextColumn("{task.description}", markup=False), console=console) as progress:
        task, pace = progress.add_task("", total=None), Pace()

        class Live:
            """The bar of rich."""

            def show(self, counts: Counts) -> None:
                text = pace.text(counts, time.monotonic())
                progress.update(task, total=max(1, counts.total), completed=counts.done, description=text)

        yield Live()


class ProgressLine:
    """One line on a terminal's standard error, rewritten until the answer comes; nothing in a pipe."""

    def __init__(self, out: Output) -> None:
        self._is_shown = out.is_terminal and is_terminal(sys.stderr)
        self._width = 0

    def __enter__(self) -> Self:
        return self

    def show(self, text: str) -> None:
        if self._is_shown:
            sys.stderr.write(f"\r{text:<{self._width}}")
            sys.stderr.flush()
            self._width = len(text)

    def __exit__(self, *_: object) -> None:
        if self._is_shown and self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()
