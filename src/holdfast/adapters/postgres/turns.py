"""Commit: many turns in one call of a server-side function, one turn in a call of its own.

The outcome of a lost answer is found by sending the same again: the function recognises a turn by its checksum. So a
lone turn may also be written by whoever asks, without a thread in between: if the answer does not come at once, the
same turn goes through the lane, and nobody waits for the first answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from holdfast.adapters.postgres import statements as sql
from holdfast.adapters.postgres import wire
from holdfast.adapters.postgres.clock import Moments
from holdfast.adapters.postgres.knowing import ask_knowing
from holdfast.adapters.postgres.link import Link
from holdfast.adapters.postgres.problems import is_of_one
from holdfast.errors import StoreError
from holdfast.ports.journal import Commit, Committed, Fenced, Unread, Verdict

BRIEF = 0.005
"""Seconds for which an event loop may stand still for a lone turn: some round trips and a sync."""

PASSES = 20
"""Lone turns that go through the lane after one whose answer did not come in that time."""


class Turns:
    """The work of the lane of turns: each piece is the batch of one caller."""

    def __init__(self, link: Link, moments: Moments, tell: Callable[[Iterable[str]], None]) -> None:
        self._link = link
        self._moments = moments
        self._tell = tell
        self._turn = threading.Lock()  # the lane's thread and whoever writes a lone turn share the link
        self._passes = 0

    def now(self, commit: Commit) -> Verdict | None:
        """The verdict on a lone turn, on this thread; None if it does not come at once."""
        if self._passes > 0:
            self._passes -= 1
            return None
        if not self._turn.acquire(blocking=False):
            return None
        try:
            rows = self._link.ask_briefly(sql.COMMIT_ONE, (self._moments.wall(), *wire.turn(commit), None, None), BRIEF)
        finally:
            self._turn.release()
        if rows is None:
            self._passes = PASSES
            return None
        ((code, first, second, hints),) = rows
        self._tell(hints or ())
        return verdict_of(code, first, second)

    def perform(self, work: Sequence[Sequence[Commit]]) -> Sequence[Any]:
        """The verdicts of each batch. All share one transaction; if that breaks, each has its own."""
        together = [commit for batch in work for commit in batch]
        try:
            verdicts = self._commit(together)
        except StoreError as error:
            if len(work) == 1 or not is_of_one(error):
                raise
            return [self._alone(batch) for batch in work]
        answers: list[Any] = []
        for batch in work:
            answers.append(verdicts[: len(batch)])
            verdicts = verdicts[len(batch) :]
        return answers

    def _alone(self, batch: Sequence[Commit]) -> Any:
        try:
            return self._commit(batch)
        except Exception as error:  # noqa: BLE001 - whoever waits gets it
            return error

    def _commit(self, commits: Sequence[Commit]) -> list[Verdict]:
        if not commits:
            return []
        statement, values = question(commits)
        with self._turn:
            ((codes, firsts, seconds, hints),), _ = ask_knowing(
                self._link, statement, lambda _, known: (self._moments.wall(), *values, known), commits
            )
        self._tell(dict.fromkeys(hints or ()))
        if len(commits) == 1:
            return [verdict_of(codes, firsts, seconds)]
        return [verdict_of(*each) for each in zip(codes, firsts, seconds, strict=True)]


def question(commits: Sequence[Commit]) -> tuple[str, tuple[Any, ...]]:
    """The statement that commits these turns, and its values without those at both ends: the time, what is known."""
    extras = [wire.besides(commit) for commit in commits]
    if len(commits) == 1:
        (only,) = extras
        return sql.COMMIT_ONE, (*wire.turn(commits[0]), None if only is None else wire.encoded_json(only))
    columns = [list(column) for column in zip(*map(wire.turn, commits), strict=True)]
    return sql.COMMIT_MANY, (*columns, wire.encoded_json(extras) if any(extras) else None)


def verdict_of(code: int, first: int, second: int) -> Verdict:
    """The verdict in the words of the functions."""
    match code:
        case 0:
            return Committed(first, second)
        case 1:
            return Fenced(first, second)
        case _:
            return Unread(first)
