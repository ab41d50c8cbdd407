"""A workflow that takes and serves updates, stopped at every point: each question is answered once."""

from __future__ import annotations

from typing import Any

from holdfast import Signal, Update, UpdateRefused, set_attributes, step, workflow
from holdfast.testing import crash_sweep

decide = Update[str, str]("decide")
ask = Update[int, int]("ask")
go = Signal[bool]("go")


@step
async def note(text: str) -> str:
    return text.upper()


@workflow
async def clerk() -> list[str]:
    seen: list[str] = []

    async def answer(n: int) -> int:
        if n < 0:
            raise UpdateRefused("negative")
        seen.append(await note(str(n)))
        return 2 * n

    ask.serve(answer)
    set_attributes(stage="deciding")
    async with decide.take() as question:
        question.answer(await note(question.value))
    set_attributes(stage=None, decided="yes")
    await go.wait()
    return seen


def test_a_clerk_survives_every_crash() -> None:
    """Promise: wherever the worker stops, the journal says the same and each question has one answer."""
    sent: list[tuple[Any, Any]] = [(ask, 1), (decide, "yes"), (ask, -1), (ask, 2), (go, True)]
    crash_sweep(clerk(), signals=sent, processes=0).assert_ok()
