"""Where in the author's code something was asked for."""

from __future__ import annotations

from types import CodeType, FrameType

import msgspec

from holdfast.authoring.script._stdlib import caller_frame
from holdfast.authoring.script.loop import DurableLoop


class Place(msgspec.Struct, gc=False):
    """A place in the author's code, stored cheaply and turned into text on request."""

    code: CodeType
    offset: int

    def __str__(self) -> str:
        line = self.code.co_firstlineno
        for start, end, number in self.code.co_lines():
            if number is not None and start <= self.offset < end:
                line = number
        return f"{self.code.co_filename}:{line}"


def place(depth: int) -> Place:
    """The place `depth` calls above the caller."""
    frame = caller_frame(depth + 1)
    return Place(frame.f_code, frame.f_lasti)


def authors_place() -> Place | None:
    """The innermost place on the stack, up to the program's loop, that is neither Holdfast's nor asyncio's."""
    frame: FrameType | None = caller_frame(1)
    while frame is not None and frame.f_code is not _LOOP_RUNS:
        if not frame.f_globals.get("__name__", "").startswith(("holdfast.", "asyncio.", "contextlib")):
            return Place(frame.f_code, frame.f_lasti)
        frame = frame.f_back
    return None


_LOOP_RUNS: CodeType = vars(DurableLoop)["run_ready"].__code__
