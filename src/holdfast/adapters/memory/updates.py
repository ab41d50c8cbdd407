"""The updates of a memory store: questions to runs, and their answers."""

from __future__ import annotations

from holdfast.adapters.memory.access import Access
from holdfast.adapters.memory.answers import settle
from holdfast.core.checksums import message_checksum
from holdfast.ports.updates import Question, UpdateAnswer, checked_question


class Asked(Access):
    """The part of a memory store that keeps questions and answers."""

    async def question(self, run: str, message: str) -> Question | None:
        """See `ports.updates`."""
        with self._lock:
            stored = self._tables.answers.get(self._tables.numbers.get(run, 0), {}).get(message)
        return None if stored is None else checked_question(run, stored)

    async def refuse(self, run: int, answer: UpdateAnswer, *, epoch: int) -> bool:
        """See `ports.updates`."""
        with self._writing() as write:
            row = self._tables.runs.get(run)
            if row is None or row.epoch != epoch or row.ended_at is not None:
                return False
            letter = self._tables.inbox[run].get(answer.message)
            if letter is None or letter.kind != "update" or letter.consumed_ordinal:
                return False
            letter.kind = "refused"
            letter.checksum = message_checksum(row.id, letter.id, "refused", letter.body)
            settle(write, row, (answer,))
            return True
