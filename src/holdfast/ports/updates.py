"""Updates: questions that were put to runs, and what became of them.

A question is a message of kind "update" with `Message.asks`: the hash of its value. Its sender finds the outcome here,
whatever became of the run since: both are kept as long as the run. A turn settles questions in its own commit.
"""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

import msgspec

from holdfast.core.checksums import answer_checksum
from holdfast.core.event import AnswerOutcome
from holdfast.errors import CorruptJournal

Outcome: TypeAlias = AnswerOutcome | Literal["ended", "dropped"]
"""As in the journal; "ended": the run ended before it settled the question; "dropped": an operator took it away."""


class UpdateAnswer(msgspec.Struct, frozen=True, gc=False):
    """What becomes of one question. `value`: raw JSON, the answer or why there is none; or in the blob of that name.
    `references`: that blob, and what it refers to."""

    message: str
    outcome: Outcome
    value: bytes = b"null"
    blob: str = ""
    references: tuple[str, ...] = ()


class Question(msgspec.Struct, frozen=True, gc=False):
    """A question as it is stored. `asked` is the hash of its value; `answer` is None while it is open."""

    message: str
    asked: bytes
    answer: UpdateAnswer | None = None


class StoredAnswer(msgspec.Struct, frozen=True, gc=False):
    """A row of answers. An empty `outcome`: it is open."""

    message: str
    asked: bytes
    outcome: str
    value: bytes
    blob: str
    checksum: bytes


class Answers(Protocol):
    """Questions to runs."""

    async def question(self, run: str, message: str) -> Question | None:
        """The question of that id to that run; None if there is none. `CorruptJournal` if the checksum of its answer
        does not hold."""
        ...

    async def refuse(self, run: int, answer: UpdateAnswer, *, epoch: int) -> bool:
        """Settles the question of a message that is unread in the inbox, without a turn: the message stays, as one of
        kind "refused" that no program is given. One transaction, for the holder of the lease alone: False, and no
        trace, if the run's epoch is another, if it has ended, or if the message was taken in or is not an update.
        """
        ...


def checked_question(run: str, stored: StoredAnswer) -> Question:
    """The question of a row; `CorruptJournal` if it was changed."""
    if stored.checksum != answer_checksum(run, stored.message, stored.outcome, stored.value, stored.blob):
        raise CorruptJournal(
            f"run {run}: the stored answer to update {stored.message!r} was changed or damaged. Its journal has "
            "the answer too; `holdfast verify` says what else does not hold."
        )
    if not stored.outcome:
        return Question(stored.message, stored.asked)
    outcome = msgspec.convert(stored.outcome, Outcome)
    return Question(stored.message, stored.asked, UpdateAnswer(stored.message, outcome, stored.value, stored.blob))
