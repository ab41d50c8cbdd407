"""Questions to runs, and their answers, as rows: what the writer does in a transaction."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.adapters.sqlite.blobs import refer
from holdfast.adapters.sqlite.transaction import Transaction
from holdfast.core.checksums import answer_checksum
from holdfast.ports.updates import UpdateAnswer

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
