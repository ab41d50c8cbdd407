"""The updates of a PostgreSQL store: questions to runs, and their answers. What writes is in
`schema/0004_pre_updates.sql`."""

from __future__ import annotations

from typing import TypeVar

from holdfast.adapters.postgres import wire
from holdfast.adapters.postgres.access import Access
from holdfast.adapters.postgres.link import Link
from holdfast.ports.updates import Question, StoredAnswer, UpdateAnswer, checked_question

T = TypeVar("T")

RUN_ID = "SELECT id FROM {s}.runs WHERE no = %b::bigint"
QUESTION = """
SELECT message, asked, outcome, value, blob, checksum FROM {s}.answers
WHERE run = (SELECT no FROM {s}.runs WHERE id = %b::text) AND message = %b::text
"""
REFUSE = "SELECT {s}.refuse_update(%b::bigint, %b::bigint, %b::text::jsonb)"


class Asked(Access):
    """The part of a PostgreSQL store that keeps questions and answers."""

    async def question(self, run: str, message: str) -> Question | None:
        """See `ports.updates`."""
        rows = await self._run(lambda link: link.ask(QUESTION, (run, message)))
        return checked_question(run, StoredAnswer(*rows[0])) if rows else None

    async def refuse(self, run: int, answer: UpdateAnswer, *, epoch: int) -> bool:
        """See `ports.updates`."""

        def work(link: Link) -> str | None:
            names = link.ask(RUN_ID, (run,))
            if not names:
                return None
            sent = wire.encoded_json(wire.answer(names[0][0], answer))
            ((name,),) = link.ask(REFUSE, (run, epoch, sent))
            refused: str | None = name
            return refused

        name = await self._run(work)
        if name is not None:
            self._tell((name,))
        return name is not None
