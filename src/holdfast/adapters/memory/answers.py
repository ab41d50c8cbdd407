"""Questions to runs, and their answers, as rows."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.adapters.memory.blobs import refer
from holdfast.adapters.memory.tables import Tables
from holdfast.adapters.memory.transaction import Transaction
from holdfast.core.checksums import answer_checksum
from holdfast.ports.runs import RunRow
from holdfast.ports.updates import StoredAnswer, UpdateAnswer


def ask(transaction: Transaction, run: RunRow, message: str, asked: bytes) -> None:
    """A question to the run has been sent. It has no answer yet."""
    _put(transaction.tables, run, message, asked)


def settle(transaction: Transaction, run: RunRow, answers: Iterable[UpdateAnswer]) -> None:
    """Records the outcomes of questions to the run, and tells the runs that wait for them."""
    for answer in answers:
        if _answer(transaction.tables, run, answer):
            refer(transaction, run.no, ("answer", answer.message), answer.references)
        transaction.hints[run.id] = None


def _answer(tables: Tables, run: RunRow, answer: UpdateAnswer) -> bool:
    """Records the outcome of a question, unless it has one. Returns whether it was recorded."""
    known = tables.answers.get(run.no, {}).get(answer.message)
    if known is not None and known.outcome:  # the first counts
        return False
    asked = b"" if known is None else known.asked
    _put(tables, run, answer.message, asked, answer.outcome, answer.value, answer.blob)
    return True


def _put(
    tables: Tables, run: RunRow, message: str, asked: bytes, outcome: str = "", value: bytes = b"", blob: str = ""
) -> None:
    checksum = answer_checksum(run.id, message, outcome, value, blob)
    tables.answers.setdefault(run.no, {})[message] = StoredAnswer(message, asked, outcome, value, blob, checksum)
