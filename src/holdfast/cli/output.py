"""What commands print: formatted for a terminal, plain lines for a pipe, JSON for programs. This module decides which;
commands pass texts and rows, and this module escapes them. rich is imported only for a terminal.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import IO, TYPE_CHECKING, Any, TypeAlias

from holdfast.cli.escapes import lines_of, one_line, to_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

Part: TypeAlias = str | tuple[str, str]
"""A text, or a text and its style."""

Cells: TypeAlias = Sequence[Part]

NARROWEST = 16
"""Minimum width of a column; a narrower one is written on a separate line."""

DOTS = "..."
"""The replacement for "…" where the stream cannot write it."""

STATUS_STYLES = {
    "pending": "cyan",
    "running": "blue",
    "paused": "yellow",
    "completed": "green",
    "failed": "red",
    "cancelled": "magenta",
}


def is_terminal(stream: IO[str]) -> bool:
    """Whether a person reads this stream."""
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def has_color(stream: IO[str]) -> bool:
    """Whether colours may be used on it."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def open_missing_streams() -> None:
    """Opens a null stream where the caller closed one (`>&-`), which Python leaves out."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            from pathlib import Path

            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 as long as the process


def prepare(*streams: IO[str]) -> None:
    """Makes a stream escape characters that it cannot write, instead of raising."""
    for stream in streams:
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def status_part(status: str) -> Part:
    return (status, STATUS_STYLES.get(status, ""))


def standing(status: str, doing: str) -> list[Part]:
    """A status with its details: "running: sleeping …", "paused (operator): …"."""
    said = doing.removeprefix(status)
    return [status_part(status), said if said != doing or not doing else f": {doing}"]


def size_text(count: int) -> str:
    """Bytes for people: "812 B", "1.4 MB"."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def ago_text(past: timedelta) -> str:
    """How long ago, in one unit: "now", "12 s", "3 h", "40 d"."""
    seconds = past.total_seconds()
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return "now"


class Output:
    """Prints the answer of a command."""

    def __init__(self, *, is_json: bool = False, stream: IO[str] | None = None) -> None:
        self._stream = sys.stdout if stream is None else stream
        self.is_json = is_json
        self.is_terminal: bool = not is_json and is_terminal(self._stream)
        self._console: Console | None = None

    @property
    def width(self) -> int:
        """Columns of the terminal; 80 if unknown."""
        import shutil  # and bz2, lzma, zlib with it, which `--help` does not need

        return max(20, shutil.get_terminal_size((80, 24)).columns)

    @property
    def _has_utf8(self) -> bool:
        return (getattr(self._stream, "encoding", None) or "").lower().replace("-", "") == "utf8"

    def record(self, value: Any) -> None:
        """Prints a line of JSON."""
        self._write(to_json(value, ascii_only=not self._has_utf8))

    def line(self, *parts: Part) -> None:
        """Prints a line of text. On a terminal it wraps at the width, later lines indented like the first."""
        if not self.is_terminal:
            self._write("".join(_plain(part) for part in parts))
            return
        text = self._text(parts)
        indent = len(text.plain) - len(text.plain.lstrip())
        self._print_hanging(text[:indent], text[indent:])

    def fields(self, pairs: Sequence[tuple[str, Part]]) -> None:
        """Prints names and values below each other, without those that have no value."""
        shown = [(name, value) for name, value in pairs if _plain(value)]
        widest = max((len(name) for name, _ in shown), default=0)
        for name, value in shown:
            label = f"{name:{widest}}  "
            if self.is_terminal:
                self._print_hanging(self._text([(label, "dim")]), self._text([value]))
            else:
                self._write(label + _plain(value))

    def hanging(self, head: Part, body: Part) -> None:
        """Prints a head and a text beside it, wrapped so that further lines are aligned with the first."""
        if self.is_terminal:
            self._print_hanging(self._text([head]), self._text([body]))
        else:
            self._write(_plain(head) + _plain(body))

    def entry(self, *parts: Part) -> None:
        """Prints several short parts and a text wrapped beside them. In a pipe: tab-separated."""
        *heads, body = parts
        if self.is_terminal:
            self._print_hanging(self._text([*heads, "  "]), self._text([body]))
        else:
            self._write("\t".join(_plain(part).strip() for part in parts))

    def block(self, text: str, *, indent: int = 2, style: str = "") -> None:
        """Prints a text of several lines, such as a traceback, unchanged."""
        for part in lines_of(text):
            if self.is_terminal:
                self._rich().print(self._text([(" " * indent + part, style)]), soft_wrap=True)
            else:
                self._write(" " * indent + part)

    def table(
        self, header: Sequence[str], rows: Sequence[Cells], *, never_cut: int = 0, is_folded: bool = False
    ) -> None:
        """Prints rows below a header; the last column gets the remaining width. In a pipe: tab-separated, no header.
        Cells are shortened to fit a terminal, or wrapped if they must be read in full. The column `never_cut`, which
        people copy, is never shortened.
        """
        if not self.is_terminal:
            for row in rows:
                self._write("\t".join(_plain(cell) for cell in row))
            return
        texts = [[self._text([cell]) for cell in row] for row in rows]
        titles = [self._text([(name, "bold")]) for name in header]
        widths = [max(text.cell_len for text in column) for column in zip(titles, *texts, strict=True)]
        if is_folded:
            self._squeeze(widths, never_cut)
        left = self.width - sum(widths[:-1]) - 2 * (len(widths) - 1)
        if left < min(NARROWEST, widths[-1]):
            self._stacked(texts, never_cut)
            return
        widths[-1] = min(widths[-1], left)
        for cells in [titles, *texts]:
            for line in self._folded(cells, widths) if is_folded else [cells]:
                fitted = [self._fitted(text, width) for text, width in zip(line, widths, strict=True)]
                self._rich().print(self._joined(fitted, "  "), soft_wrap=True)

    def _squeeze(self, widths: list[int], fixed: int) -> None:
        """Reduces the widest columns until the table fits."""
        over = sum(widths) + 2 * (len(widths) - 1) - self.width
        for number in sorted(range(len(widths)), key=lambda number: -widths[number]):
            taken = 0 if number == fixed else max(0, min(over, widths[number] - NARROWEST))
            widths[number] -= taken
            over -= taken

    def _folded(self, cells: Sequence[Text], widths: Sequence[int]) -> Iterable[Sequence[Text]]:
        columns = [text.wrap(self._rich(), width) for text, width in zip(cells, widths, strict=True)]
        return itertools.zip_longest(*columns, fillvalue=self._text([]))

    def _fitted(self, text: Text, width: int) -> Text:
        fitted = text.copy()
        if not self._has_utf8 and text.cell_len > width > len(DOTS):
            fitted.truncate(width - len(DOTS), overflow="crop")
            fitted.append(DOTS)
        fitted.truncate(width, overflow="ellipsis", pad=True)
        return fitted

    def _stacked(self, rows: Sequence[Sequence[Text]], first: int) -> None:
        """The rows for a terminal too narrow for a table: each on two or more lines."""
        for row in rows:
            rest = [text for number, text in enumerate(row) if number != first and text.plain]
            self._rich().print(row[first], soft_wrap=True)
            self._print_hanging(self._text(["  "]), self._joined(rest, " · " if self._has_utf8 else " - "))

    # -- below ---------------------------------------------------------------------------------------------------------

    def _write(self, text: str) -> None:
        self._stream.write(f"{text}\n")

    def _rich(self) -> Console:
        if self._console is None:
            from rich.console import Console

            has_no_color = not has_color(self._stream)
            self._console = Console(
                file=self._stream, width=self.width, highlight=False, markup=False, emoji=False, no_color=has_no_color
            )
        return self._console

    def _text(self, parts: Cells) -> Text:
        from rich.text import Text

        text = Text()
        for part in parts:
            word, style = (part, "") if isinstance(part, str) else part
            shown = one_line(word)
            text.append(shown if self._has_utf8 else shown.replace("…", DOTS), style or None)
        return text

    def _joined(self, texts: Sequence[Text], between: str) -> Text:
        from rich.text import Text

        joined = Text(between).join(texts)
        joined.rstrip()
        return joined

    def _print_hanging(self, head: Text, body: Text) -> None:
        """Prints the body beside its head, wrapped at the width and aligned with the first line."""
        console = self._rich()
        room = max(20, self.width - head.cell_len)
        for number, part in enumerate(body.wrap(console, room)):
            part.rstrip()
            console.print((head if number == 0 else self._text([" " * head.cell_len])) + part, soft_wrap=True)


def _plain(part: Part) -> str:
    return one_line(part if isinstance(part, str) else part[0])
