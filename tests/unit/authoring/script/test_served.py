"""Questions across passes of a body: given again, and answered once."""

from __future__ import annotations

from holdfast import Retry, Signal, Update, step, workflow
from holdfast.testing import Sim

ask = Update[str, str]("ask")
take = Update[str, str]("take")
go = Signal[bool]("go")


@step
async def note(text: str) -> str:
    return text.upper()


@workflow(retry=Retry(3, first="1s"))
async def stumbles() -> list[str]:
    seen: list[str] = []

    async def answer(text: str) -> str:
        seen.append(text)
        return await note(text)

    ask.serve(answer)
    async with take.take() as question:
        question.answer(await note(question.value))
    if await go.wait() and not Stumble.done:
        Stumble.done = True
        raise ValueError("once")
    return seen


class Stumble:
    """Whether the body has failed."""

    done = False


def test_a_new_pass_gets_its_questions_again() -> None:
    """Promise: what handlers keep in memory is there again in the next pass, and no answer is given twice."""
    with Sim() as sim:
        run = sim.start(stumbles())
        assert run.update(ask, "a") == "A"
        assert run.update(take, "t") == "T"
        run.signal(go, True)
        assert run.result("60s") == ["a"]
        answered = [event.data["message"] for event in run.follow() if event.type == "answered"]
        assert len(answered) == len(set(answered)) == 2
