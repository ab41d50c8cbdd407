"""The answers to questions in a memory store."""

from __future__ import annotations

from holdfast.adapters.memory.tables import Tables
from holdfast.core.checksums import answer_checksum
from holdfast.ports.runs import RunRow
from holdfast.ports.updates import StoredAnswer, UpdateAnswer


def put_question(tables: Tables, run: RunRow, message: str, asked: bytes) -> None:
    """A question to the run has been sent. It has no answer yet."""
    _put(tables, run, message, asked)


def put_answer(tables: Tables, run: RunRow, answer: UpdateAnswer) -> bool:
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
