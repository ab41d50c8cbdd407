"""Tracebacks of failures: which frames are kept, and which line is named."""

from __future__ import annotations

import graphlib
from collections.abc import Callable
from types import FunctionType

import pytest

from holdfast.core.failure import Failure, authored_traceback, from_exception, place_of
from holdfast.core.hints import check_options
from holdfast.core.retry import Retry


def called_by_holdfast(author: Callable[[], object]) -> BaseException:
    """What `author` raises, caught in a function that stands for one of Holdfast's."""

    def engine() -> None:
        author()

    code = engine.__code__.replace(co_filename=check_options.__code__.co_filename)
    ours = FunctionType(code, globals(), closure=engine.__closure__)
    with pytest.raises(Exception, match=r".+") as caught:
        ours()
    tb = caught.value.__traceback__
    assert tb is not None
    return caught.value.with_traceback(tb.tb_next)  # without the test's own frame


def test_the_frames_of_holdfast_around_the_authors_are_left_out() -> None:
    """Promise: a traceback begins with the author's code; it also ends there if the error is Holdfast's own. An error
    from within Python or Holdfast itself keeps the frames below the author's."""

    def wrong() -> None:
        check_options(["sise"], ["size"], "a box")

    def circle() -> None:
        list(graphlib.TopologicalSorter({1: [2], 2: [1]}).static_order())

    def deep() -> None:
        Retry(first=object())  # type: ignore[arg-type]

    ours = from_exception(called_by_holdfast(wrong)).traceback
    assert [line.split()[-1] for line in ours.splitlines() if line.startswith("  File")] == ["wrong"]
    assert "has no option sise" in ours
    pythons = from_exception(called_by_holdfast(circle)).traceback
    inside = [line.split()[-1] for line in pythons.splitlines() if line.startswith("  File")]
    assert inside[0] == "circle"
    assert inside[-1] == "prepare"
    bug = called_by_holdfast(deep)
    shown = from_exception(bug).traceback
    assert ", in deep\n" in shown
    assert ", in engine\n" not in shown


def test_a_log_begins_with_the_authors_code() -> None:
    """Promise: so does the traceback that is passed to `logging`; the error keeps its own."""

    def wrong() -> None:
        raise ValueError("odd")

    error = called_by_holdfast(wrong)
    shown = authored_traceback(error)
    assert shown is not None
    assert error.__traceback__ is not None
    assert error.__traceback__.tb_next is shown
    assert shown.tb_frame.f_code is wrong.__code__
    assert authored_traceback(ValueError()) is None


def test_an_error_without_a_frame_of_the_author_keeps_all() -> None:
    """Promise: a bug of Holdfast's own shows where it is."""
    with pytest.raises(Exception, match="no option") as caught:
        check_options(["sise"], ["size"], "a box")
    tb = caught.value.__traceback__
    assert tb is not None
    assert ", in check_options\n" in from_exception(caught.value.with_traceback(tb.tb_next)).traceback


def test_the_place_of_an_error_is_a_line_of_the_author() -> None:
    """Promise: neither the line of Python's own code nor that of a package in which the error was raised."""

    def circle() -> None:
        list(graphlib.TopologicalSorter({1: [2], 2: [1]}).static_order())

    assert place_of(from_exception(called_by_holdfast(circle))).startswith(f"{__file__}:")
    lines = [
        ("shop/orders.py", 3),
        (".venv/lib/python3.12/site-packages/httpx/_client.py", 9),
        (check_options.__code__.co_filename, 4),
    ]
    for count, place in ((3, 0), (2, 0)):
        text = "".join(f'  File "{file}", line {line}, in f\n' for file, line in lines[:count])
        assert place_of(Failure("E", "", f"Traceback (most recent call last):\n{text}")) == ":".join(
            map(str, lines[place])
        )
    text = "".join(f'  File "{file}", line {line}, in f\n' for file, line in lines[1:])
    assert place_of(Failure("E", "", f"Traceback (most recent call last):\n{text}")).endswith("_client.py:9")
