"""The output of the demo: lines that stay, and on a terminal a few lines below them that change.

Both screens show the same lines. Without a terminal (or on a dumb one) there are no control codes and nothing moves.
"""

from __future__ import annotations

import io
import itertools
import os
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Protocol, Self

from holdfast.cli.escapes import one_line
from holdfast.cli.output import has_color, is_terminal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

WHO = 18
"""Columns of "worker-1 (4194304)"."""

MOVING = ("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "|/-\\")


@dataclass(frozen=True, slots=True)
class Line:
    """An event: the time in seconds since the beginning, who, and what."""

    at: float
    who: str
    text: str
    style: str = ""

    @property
    def head(self) -> str:
        """The text before the message."""
        return f"{self.at:5.1f} s  {self.who:{WHO}}  "


class Screen(Protocol):
    """Receives the lines."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def say(self, line: Line) -> None:
        """A line of the timeline."""
        ...

    def mark(self, line: Line) -> None:
        """A line that stands out."""
        ...

    def now(self, doing: Sequence[str]) -> None:
        """What is happening now."""
        ...

    def write(self, text: str = "", *, hang: int = 0, style: str = "") -> None:
        """A line of prose; where it wraps, further lines begin `hang` columns in."""
        ...


class PlainScreen:
    """For a pipe, a file, a dumb terminal: whole lines, at once."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def say(self, line: Line) -> None:
        """A line of the timeline."""
        self._put(one_line(f"{line.head}{line.text}"))

    def mark(self, line: Line) -> None:
        """A line that stands out."""
        self._put(one_line(f"{line.head[:7]}  === {line.text} ==="))

    def now(self, doing: Sequence[str]) -> None:
        """Shows nothing: steps are shown when they have ended."""

    def write(self, text: str = "", *, hang: int = 0, style: str = "") -> None:
        for part in textwrap.wrap(one_line(text), 80, subsequent_indent=" " * hang) or [""]:
            self._put(part)

    def _put(self, text: str) -> None:
        self._stream.write(f"{text}\n")
        self._stream.flush()


class MovingScreen:
    """For a terminal."""

    def __init__(self, stream: IO[str]) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console: Console = Console(
            file=stream, highlight=False, markup=False, emoji=False, no_color=not has_color(stream)
        )
        has_unicode = self._console.encoding.lower().replace("-", "").startswith("utf")
        self._frames = itertools.cycle(MOVING[0] if has_unicode else MOVING[1])
        self._bar = "━" if has_unicode else "="
        self._doing: Sequence[str] = ()
        self._live = Live(
            get_renderable=self._moving, console=self._console, auto_refresh=False, transient=True,
            redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._doing = ()
        self._live.stop()

    @property
    def _width(self) -> int:
        return self._console.width

    def say(self, line: Line) -> None:
        """A line of the timeline."""
        head = line.head if self._width >= 60 else f"{line.head[:7]}  "
        for number, part in enumerate(textwrap.wrap(one_line(line.text), max(20, self._width - len(head)))):
            self._print((head if number == 0 else " " * len(head), "dim"), (part, line.style))

    def mark(self, line: Line) -> None:
        """A line that stands out."""
        for number, part in enumerate(textwrap.wrap(one_line(line.text), max(20, self._width - 14))):
            head = f"{line.head[:7] if number == 0 else '':7}  "
            self._print((head, "dim"), (f"{self._bar * 2} {part} ".ljust(self._width - 9, self._bar), "bold red"))

    def now(self, doing: Sequence[str]) -> None:
        """What is happening now, below the lines that stay."""
        self._doing = doing
        self._live.refresh()

    def write(self, text: str = "", *, hang: int = 0, style: str = "") -> None:
        for part in textwrap.wrap(one_line(text), max(20, self._width), subsequent_indent=" " * hang) or [""]:
            self._print((part, style))

    def _print(self, *parts: tuple[str, str]) -> None:
        self._console.print(_text(parts), soft_wrap=True)

    def _moving(self) -> Text:
        frame = next(self._frames)
        room = self._width - 3
        lines = [(f" {frame} {one_line(text)[:room]}", "cyan") for text in self._doing]
        return _text([(text if last else f"{text}\n", style) for text, style, last in _with_last(lines)])


def _with_last(lines: list[tuple[str, str]]) -> list[tuple[str, str, bool]]:
    return [(text, style, number == len(lines)) for number, (text, style) in enumerate(lines, 1)]


def _text(parts: Sequence[tuple[str, str]]) -> Text:
    from rich.text import Text

    return Text.assemble(*parts, no_wrap=True)


class SilentScreen(PlainScreen):
    """For programs, which only read the end."""

    def __init__(self) -> None:
        super().__init__(io.StringIO())


def screen_for(stream: IO[str]) -> Screen:
    if is_terminal(stream) and os.environ.get("TERM", "dumb") != "dumb":
        return MovingScreen(stream)
    return PlainScreen(stream)
