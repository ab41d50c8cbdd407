"""The updates of a SQLite store: questions to runs, and their answers."""

from __future__ import annotations

from typing import TypeVar

from holdfast.adapters.sqlite.access import Access
from holdfast.adapters.sqlite.answers import settle
from holdfast.adapters.sqlite.connections import fetch
from holdfast.adapters.sqlite.transaction import Transaction
from holdfast.core.checksums import message_checksum
from holdfast.ports.updates import Question, StoredAnswer, UpdateAnswer, checked_question

T = TypeVar("T")

QUESTION = """
SELECT message, asked, outcome, value, blob, checksum FROM answers
WHERE run = (SELECT no FROM runs WHERE id = ?) AND message = ?
"""
# unrefused: fenced by the lease of the holder who refuses it.
UNREFUSED = """
SELECT runs.id, inbox.no, body FROM runs JOIN inbox ON inbox.run = runs.no
WHERE runs.no = ? AND epoch = ? AND ended_at IS NULL AND inbox.id = ? AND kind = 'update' AND consumed_ordinal IS NULL
"""
# refuse: the message keeps its number and its body, and no program is given it. Locks inbox.
REFUSE = "UPDATE inbox SET kind = 'refused', checksum = ? WHERE run = ? AND no = ?"


class Asked(Access):
    """The part of a SQLite store that keeps questions and answers."""

    async def question(self, run: str, message: str) -> Question | None:
        """See `ports.updates`."""
        rows = self._read(lambda connection: fetch(connection, QUESTION, (run, message)))
        return checked_question(run, StoredAnswer(*rows[0])) if rows else None

    async def refuse(self, run: int, answer: UpdateAnswer, *, epoch: int) -> bool:
        """See `ports.updates`."""

        def work(transaction: Transaction) -> bool:
            found = transaction.row(UNREFUSED, (run, epoch, answer.message))
            if found is None:
                return False
            name, number, body = found
            transaction.run(REFUSE, (message_checksum(name, answer.message, "refused", body), run, number))
            settle(transaction, name, run, (answer,))
            return True

        return await self._write(work)
