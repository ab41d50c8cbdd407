"""The updates of a SQLite store: questions to runs, and their answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

import apsw

from holdfast.adapters.sqlite.blobs import refer
from holdfast.adapters.sqlite.connection import fetch
from holdfast.adapters.sqlite.transaction import Operation, Transaction
from holdfast.core.checksums import answer_checksum, message_checksum
from holdfast.ports.updates import Question, StoredAnswer, UpdateAnswer, checked_question

T = TypeVar("T")

# ask: with the message, so that its sender finds its outcome. Locks answers.
ASK = """
INSERT INTO answers (run, message, asked, outcome, value, blob, checksum) VALUES (?, ?, ?, '', x'', '', ?)
"""
# answer: the first counts. A question that was asked of another store, and imported, has no row. Locks answers.
ANSWER = """
INSERT INTO answers (run, message, asked, outcome, value, blob, checksum) VALUES (?, ?, x'', ?, ?, ?, ?)
ON CONFLICT (run, message) DO UPDATE SET outcome = excluded.outcome, value = excluded.value, blob = excluded.blob,
    checksum = excluded.checksum
WHERE outcome = ''
"""
HAS_QUESTION = "SELECT 1 FROM answers WHERE run = ? AND message = ?"
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


def ask(transaction: Transaction, run: str, no: int, message: str, asks: bytes) -> None:
    """The question in a stored message."""
    transaction.run(ASK, (no, message, asks, answer_checksum(run, message, "", b"", "")))


def settle(transaction: Transaction, run: str, no: int, answers: Iterable[UpdateAnswer]) -> None:
    """Records the outcomes of questions, and tells the runs that wait for them."""
    for one in answers:
        stored = (one.outcome, one.value, one.blob)
        transaction.run(ANSWER, (no, one.message, *stored, answer_checksum(run, one.message, *stored)))
        if one.references:
            refer(transaction, no, ("answer", 0, one.message), one.references)
    transaction.hint(run)


class Asked(ABC):
    """The part of a SQLite store that keeps questions and answers."""

    @abstractmethod
    def _write(self, operation: Operation[T], *, is_large: bool = False) -> Awaitable[T]: ...

    @abstractmethod
    def _read(self, ask: Callable[[apsw.Connection], T]) -> T: ...

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
