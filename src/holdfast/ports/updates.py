"""Updates: questions to runs, and their outcomes.

A question is a message of kind "update" with `Message.asks`: the hash of its value. Its sender finds the outcome here,
even after the run has ended: both are kept as long as the run. A turn settles questions in its own commit.
"""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

import msgspec

from holdfast.core.checksums import answer_checksum
from holdfast.core.event import AnswerOutcome
from holdfast.errors import CorruptJournal

Outcome: TypeAlias = AnswerOutcome | Literal["ended", "dropped"]
"""As in the journal; "ended": the run ended before it settled the question; "dropped": an operator dropped it."""


class UpdateAnswer(msgspec.Struct, frozen=True, gc=False):
    """The outcome of one question. `value`: raw JSON, the answer or the reason; or it is in the blob of that name.
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
    """A row of answers. With an empty `outcome` it is open."""

    message: str
    asked: bytes
    outcome: str
    value: bytes
    blob: str
    checksum: bytes


class Answers(Protocol):
    """Questions to runs."""

    async def question(self, run: str, message: str) -> Question | None:
        """The question of that id to that run, or None. Raises `CorruptJournal` if the checksum of its answer does not
        match."""
        ...

    async def refuse(self, run: int, answer: UpdateAnswer, *, epoch: int) -> bool:
        """Settles the question of a message that is unread in the inbox, without a turn: the message stays, as one of
        kind "refused" that no program is given. One transaction, only for the holder of the lease. Returns False,
        having written nothing, if the run's epoch differs, it has ended, or the message was taken in or is not an
        update.
        """
        ...


def checked_question(run: str, stored: StoredAnswer) -> Question:
    """The question of a row. Raises `CorruptJournal` if it was changed."""
    if stored.checksum != answer_checksum(run, stored.message, stored.outcome, stored.value, stored.blob):
        raise CorruptJournal(
            f"run {run}: the stored answer to update {stored.message!r} was changed or damaged. Its journal has "
            "the answer too; `holdfast verify` finds further damage."
        )
    if not stored.outcome:
        return Question(stored.message, stored.asked)
    outcome = msgspec.convert(stored.outcome, Outcome)
    return Question(stored.message, stored.asked, UpdateAnswer(stored.message, outcome, stored.value, stored.blob))
