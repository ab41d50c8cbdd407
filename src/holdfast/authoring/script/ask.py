"""One question to a run, as its workflow sees it: settled once, durable with the turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from holdfast.authoring.script._stdlib import get_running_loop
from holdfast.authoring.script.bridge import sync_program
from holdfast.core import events as e
from holdfast.core.commands import Answer
from holdfast.core.ids import check_text
from holdfast.core.specs import UpdateSpec
from holdfast.errors import NotAllowedHere, UsageError

if TYPE_CHECKING:
    from holdfast.authoring.script.exchange import Exchange

Q = TypeVar("Q")
A = TypeVar("A")


class Ask(Generic[Q, A]):
    """One question. `value` is the question, `sender` is who asked. Call `answer` or `refuse` once."""

    __slots__ = ("_program", "_settled", "_update", "id", "sender", "value")

    def __init__(self, program: Exchange, update: UpdateSpec, event: e.UpdateReceived, value: Any) -> None:
        self.value: Q = value
        self.sender: str = event.sender
        self.id: str = event.message
        self._program = program
        self._update = update
        self._settled = ""

    def __repr__(self) -> str:
        return f"<Ask {self._update.name} {self.id}>"

    @property
    def is_settled(self) -> bool:
        """Whether it was answered, refused or left."""
        return bool(self._settled)

    def answer(self, value: A) -> None:
        """Answers. The answer is durable with this turn."""
        self._check("answer")
        self._settle("answered", self._update.answer.round_trip(value, f"answer to {self._update.name}")[0])

    def refuse(self, reason: str) -> None:
        """Refuses. The sender gets `UpdateRefused` with the reason."""
        self._check("refuse")
        self._settle("refused", msgspec.json.encode(check_text(reason, f"the reason to refuse {self._update.name}")))

    def leave(self, error: BaseException | None) -> None:
        """Leaves the question unsettled. The sender gets `UpdateUnanswered`."""
        why = "the workflow left it without an answer"
        if error is not None:
            why += f": {type(error).__name__}: {error}".removesuffix(": ")
        self._settle("left", msgspec.json.encode(self._program.redaction.text(why)))

    def _check(self, verb: str) -> None:
        program = self._program
        if get_running_loop() is not program.loop and sync_program.get() is not program:
            raise NotAllowedHere(
                f"Ask.{verb}() of update {self._update.name} is for the workflow that took it: return the answer from "
                "the step, and answer in the workflow"
            )
        if self._settled:
            raise UsageError(
                f"update {self._update.name} ({self.id}) was {self._settled} already: one question has one answer"
            )

    def _settle(self, outcome: e.AnswerOutcome, value: bytes) -> None:
        self._settled = outcome
        program = self._program
        if self.id not in program.beginning.answered and not program.loop.unwinding:
            program.ask(Answer(message=self.id, outcome=outcome, value=value))
