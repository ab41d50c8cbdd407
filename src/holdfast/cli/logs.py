"""What a worker says while it works: one line for each record, as text or as JSON, on standard error.

::

    12:00:01.123Z info  run order-42: step charge started, attempt 1  workflow=fulfil worker=w1 epoch=3
    {"time": "2026-07-15T12:00:01.123Z", "level": "info", "event": "step", "message": …, "run": "order-42", …}

A record is one line whatever its message holds; only a traceback in the text format takes more, each line of it marked
with a bar, so that no data can pass for a line of the log. A log that cannot be written never stops the work.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

from holdfast.cli.escapes import lines_of, one_line, plain, text_of, to_json

LogFormat = Literal["text", "json"]

LOG = logging.getLogger("holdfast.worker")

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_OURS = ("time", "level", "event", "message", "logger", "traceback")
_COLORS = {logging.WARNING: "33", logging.ERROR: "31", logging.CRITICAL: "1;31", logging.DEBUG: "2"}


class TextLines(logging.Formatter):
    """For people: the time, the level, the message, and the fields the message does not name itself."""

    def __init__(self, *, on_terminal: bool = False, has_color: bool = False) -> None:
        super().__init__()
        self._on_terminal = on_terminal
        self._has_color = has_color

    def format(self, record: logging.LogRecord) -> str:
        """One line, and the traceback below it if there is one."""
        at = instant_of(record)
        if self._on_terminal:
            at = at.partition("T")[2]
        level = record.levelname.lower()
        text = one_line(message_of(record))
        fields = " ".join(
            f"{name}={_field(value)}"
            for name, value in fields_of(record).items()
            if name != "fact" and not (name == "run" and text.startswith(f"run {one_line(text_of(value))}:"))
            and not (name == "worker" and text.startswith(f"worker {one_line(text_of(value))}:"))
        )  # fmt: skip
        if self._has_color:
            level = f"\x1b[{_COLORS[record.levelno]}m{level:7}\x1b[0m" if record.levelno in _COLORS else f"{level:7}"
            fields = f"\x1b[2m{fields}\x1b[0m" if fields else ""
        line = f"{at} {level:7} {text}  {fields}".rstrip()
        trace = traceback_of(record)
        return "\n".join([line, *(f"    | {part}" for part in lines_of(trace))]) if trace else line


class JsonLines(logging.Formatter):
    """For programs: an object per line. Only ASCII, so that every reader takes it whatever its encoding."""

    def format(self, record: logging.LogRecord) -> str:
        fields = fields_of(record)
        shown: dict[str, object] = {
            "time": instant_of(record),
            "level": record.levelname.lower(),
            "event": fields.pop("fact", "log"),
            "message": message_of(record),
            "logger": record.name,
        }
        shown |= {f"{name}_" if name in _OURS else name: value for name, value in fields.items()}
        trace = traceback_of(record)
        if trace:
            shown["traceback"] = trace
        return to_json(plain(shown), ascii_only=True)


class LogStream(logging.StreamHandler[TextIO]):
    """Writes to a stream that may be closed, full or gone. A failure never stops the worker."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 logging's name
        """Does nothing: there is nowhere to report it. Redirects what still waits to be written, or the interpreter
        would report an error at exit."""
        if isinstance(sys.exc_info()[1], BrokenPipeError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), self.stream.fileno())


def configure(kind: LogFormat, level: str, stream: TextIO | None = None) -> logging.Formatter:
    """Sends everything that is logged in this process to standard error; returns the formatter."""
    out = sys.stderr if stream is None else stream
    formatter = JsonLines() if kind == "json" else _text_lines(out)
    handler = LogStream(out)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.captureWarnings(capture=True)
    threading.excepthook = _thread_broke
    return formatter


def instant_of(record: logging.LogRecord) -> str:
    """The time of the record: UTC, ISO 8601, to the millisecond."""
    at = datetime.fromtimestamp(record.created, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"


def message_of(record: logging.LogRecord) -> str:
    """The message; arguments that do not match it are shown beside it."""
    try:
        return record.getMessage()
    except Exception as error:  # noqa: BLE001 the author's arguments, and their __str__
        return f"{text_of(record.msg)} (arguments do not fit: {type(error).__name__})"


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """The fields given as `extra`."""
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


def traceback_of(record: logging.LogRecord) -> str:
    """The traceback and the stack, if the record has them."""
    parts: list[str] = []
    if record.exc_info:
        parts.append(logging.Formatter().formatException(record.exc_info))
    elif record.exc_text:
        parts.append(record.exc_text)
    if record.stack_info:
        parts.append(record.stack_info)
    return "\n".join(parts)


def _text_lines(out: TextIO) -> TextLines:
    from holdfast.cli.output import has_color, is_terminal

    return TextLines(on_terminal=is_terminal(out), has_color=has_color(out))


def _field(value: object) -> str:
    simple = plain(value)
    text = one_line(simple, 200) if isinstance(simple, str) else one_line(to_json(simple), 200)
    return text if text and " " not in text and "=" not in text and '"' not in text else to_json(text)


def _thread_broke(broken: threading.ExceptHookArgs) -> None:
    name = broken.thread.name if broken.thread is not None else "?"
    if broken.exc_value is not None:
        LOG.error("thread %s broke", name, exc_info=broken.exc_value)
