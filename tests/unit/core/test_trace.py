"""Which trace contexts are taken from the outside."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.trace import no_trace, trace_now

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_well_formed_context_is_taken_as_it_is() -> None:
    assert trace_now(lambda: PARENT) == PARENT
    assert trace_now(no_trace) == ""


@pytest.mark.parametrize(
    "given",
    [
        "",
        "junk",
        PARENT.upper(),
        PARENT + "\n",
        PARENT.replace("0af7651916cd43dd8448eb211c80319c", "0" * 32),
        PARENT.replace("b7ad6b7169203331", "0" * 16),
        "ff" + PARENT[2:],
        None,
        7,
    ],
)
def test_what_is_no_context_is_left_out(given: Any) -> None:
    """Promise: a tracer that is broken, or says something else, never keeps a run from being started."""
    assert trace_now(lambda: given) == ""


def test_a_tracer_that_raises_is_not_heard() -> None:
    def broken() -> str:
        raise RuntimeError

    assert trace_now(broken) == ""
