"""What reaches a log or a terminal is one harmless, bounded line, whatever users' data holds."""

from __future__ import annotations

import io
import json
import logging
import re
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.escapes import MAX_TEXT, lines_of, one_line, plain, to_json
from holdfast.cli.logs import JsonLines, LogStream, TextLines

RAW = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
ANYTHING = st.text(st.characters(codec=None, categories=None))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANYTHING | st.binary() | st.dates(),
    lambda inner: st.lists(inner) | st.dictionaries(st.integers() | ANYTHING, inner),
    max_leaves=20,
)


def record(message: object, *arguments: object, **extra: Any) -> logging.LogRecord:
    return logging.getLogger("holdfast.run").makeRecord(
        "holdfast.run", logging.INFO, "f.py", 1, message, arguments, None, extra=extra
    )


@given(ANYTHING)
def test_a_text_is_one_harmless_line(text: str) -> None:
    """Contract: no control character survives, and every line of a block is as harmless."""
    assert not RAW.search(one_line(text))
    assert not any(RAW.search(line) for line in lines_of(text))
    one_line(text).encode()


@given(VALUES)
def test_every_value_has_json(value: object) -> None:
    """Contract: strict JSON in one line, NaN, bytes, odd keys and halves of characters included."""
    for ascii_only in (True, False):
        text = to_json(plain(value), ascii_only=ascii_only)
        assert not RAW.search(text)
        json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))


@given(ANYTHING, st.dictionaries(st.sampled_from(["time", "level", "event", "x", "run"]), VALUES))
def test_every_record_is_one_line(message: str, extra: dict[str, Any]) -> None:
    """Contract: in both formats, and our own fields keep their meaning."""
    said = json.loads(JsonLines().format(record("%s", message, **extra)))
    assert said["level"] == "info"
    assert said["time"].endswith("Z")
    assert not RAW.search(TextLines().format(record("%s", message, **extra)))


class Grumpy:
    def __str__(self) -> str:
        raise RuntimeError("no")


def test_what_cannot_be_said_is_said_to_be_so() -> None:
    """Contract: wrong arguments, a `__str__` that raises, numbers without end and endless texts cost no line."""
    assert "arguments do not fit" in TextLines().format(record("%d", "x"))
    assert "cannot be read: RuntimeError" in JsonLines().format(record("x", odd=Grumpy()))
    assert "arguments do not fit" in JsonLines().format(record(Grumpy()))
    assert "bits" in JsonLines().format(record("x", big=1 << 20_000))
    assert len(TextLines().format(record("x" * 10 * MAX_TEXT))) < 2 * MAX_TEXT
    assert len(JsonLines().format(record("x" * 10 * MAX_TEXT, y=[["z" * 10] * 1000]))) < 3 * MAX_TEXT
    deep: list[Any] = []
    deep.append(deep)
    assert "…" in json.loads(JsonLines().format(record("x", deep=deep)))["deep"].__repr__()


def test_a_traceback_is_marked_or_inside() -> None:
    """Contract: its lines cannot pass for lines of the log."""
    failed = record("broke")
    try:
        int("1\n2026-01-01T00:00:00.000Z info forged")
    except ValueError:
        failed.exc_info = sys.exc_info()
    first, *rest = TextLines().format(failed).splitlines()
    assert first.endswith("broke")
    assert rest
    assert all(line.startswith("    | ") for line in rest)
    assert json.loads(JsonLines().format(failed))["traceback"].startswith("Traceback")


def test_a_stream_that_is_gone_is_no_reason_to_fail(capsys: pytest.CaptureFixture[str]) -> None:
    """Contract: logging to a closed stream raises nothing and says nothing."""
    stream = io.StringIO()
    stream.close()
    LogStream(stream).handle(record("x"))
    assert capsys.readouterr() == ("", "")
