"""Commit: many turns in one call of a server-side function, one turn by its own statement or call.

A lone turn that brings nothing else is one statement (`COMMIT_PLAIN`). If that does not find the run as the turn
expects it, the function says why. After a lost answer the same turn is sent again: the function recognises it by its
checksum. So a lone turn may also be written on the caller's thread (`lone`).

If another session has locked a run, all turns that share the transaction wait for it once. From then on turns of that
run are committed separately, and not sent while its row is locked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from holdfast.adapters.postgres import statements as sql
from holdfast.adapters.postgres import wire
from holdfast.adapters.postgres.clock import Moments
from holdfast.adapters.postgres.fast_path import Lone
from holdfast.adapters.postgres.link import Link
from holdfast.adapters.postgres.problems import is_of_one
from holdfast.adapters.postgres.server_questions import ask_knowing
from holdfast.adapters.sql.batches import settle
from holdfast.errors import StoreContended
from holdfast.ports.journal import Commit, Committed, Fenced, Unread, Verdict, answered
from holdfast.ports.parts import STREAMS


class Turns:
    """The work of the lane of turns: each piece is the batch of one caller."""

    def __init__(self, link: Link, moments: Moments, tell: Callable[[Iterable[str]], None]) -> None:
        self._link = link
        self._moments = moments
        self._tell = tell
        self._lone = Lone(link)
        self._suspects: set[int] = set()  # runs of which a turn met a lock

    def connect(self) -> None:
        """Opens the connection early, so that the first turn is as fast as the second."""
        with self._lone.turn:
            self._link.ask(sql.NOTHING)
            if self._link.takes_plain:
                self._link.ask(sql.COMMIT_PLAIN, wire.OF_NO_RUN)

    def now(self, commit: Commit) -> Verdict | None:
        """The verdict on a lone turn, committed on this thread; None if it does not come at once."""
        plain = wire.plain(commit)
        rows = None if plain is None else self._lone.ask(sql.COMMIT_PLAIN, plain)
        return self._committed(commit, rows) if isinstance(rows, list) else None

    def _committed(self, commit: Commit, rows: Sequence[Any]) -> Verdict | None:
        """The verdict on a plain turn; None if the function has to say why it failed."""
        if not rows:
            return None
        if commit.is_terminal:
            self._tell((commit.row.run,))
        return Committed(*rows[0])

    def perform(self, work: Sequence[Sequence[Commit]]) -> Sequence[Any]:
        """The verdicts on each batch, or its error. All turns share one transaction. If one makes it fail, each gets
        its own; turns of runs whose row was locked have theirs from the start."""
        turns = [commit for batch in work for commit in batch]
        apart = [commit.no in self._suspects for commit in turns]
        shared = iter(settle([x for x, alone in zip(turns, apart, strict=True) if not alone], self._commit, is_of_one))
        outcomes = (
            settle([commit], self._commit, is_of_one)[0] if alone else next(shared)
            for commit, alone in zip(turns, apart, strict=True)
        )
        return [_answered([next(outcomes) for _ in batch]) for batch in work]

    def _commit(self, commits: Sequence[Commit]) -> list[Verdict]:
        if not commits:
            return []
        try:
            verdicts = self._written(commits)
        except StoreContended:
            self._suspects.update(commit.no for commit in commits)
            raise
        if self._suspects:
            self._suspects.difference_update(commit.no for commit in commits)
        return verdicts

    def _written(self, commits: Sequence[Commit]) -> list[Verdict]:
        statement, values = question(commits)
        with self._lone.turn:
            if len(commits) == 1 and (no := commits[0].no) in self._suspects:
                ((is_locked,),) = self._link.ask(sql.IS_LOCKED, (no, no))
                if is_locked:
                    raise StoreContended(f"the row of run {commits[0].row.run} is still locked. Try again.")
            plain = wire.plain(commits[0]) if len(commits) == 1 and self._link.takes_plain else None
            if plain is not None:
                verdict = self._committed(commits[0], self._link.ask(sql.COMMIT_PLAIN, plain))
                if verdict is not None:
                    return [verdict]
            ((codes, firsts, seconds, hints),), _ = ask_knowing(
                self._link, statement, lambda _, known: (self._moments.wall(), *values, known), commits
            )
        told: dict[str, None] = dict.fromkeys(hints or ())
        if any(commit.parts or commit.spans for commit in commits):
            told[STREAMS] = None
        self._tell(told)
        if len(commits) == 1:
            return [verdict_of(codes, firsts, seconds)]
        return [verdict_of(*each) for each in zip(codes, firsts, seconds, strict=True)]


def _answered(outcomes: Sequence[Verdict | Exception]) -> Any:
    try:
        return answered(outcomes)
    except Exception as error:  # noqa: BLE001 - raised for the waiter
        return error


def question(commits: Sequence[Commit]) -> tuple[str, tuple[Any, ...]]:
    """The statement that commits these turns and its values, without the first (the time) and the last (what is
    known)."""
    extras = [wire.besides(commit) for commit in commits]
    if len(commits) == 1:
        (only,) = extras
        return sql.COMMIT_ONE, (*wire.turn(commits[0]), None if only is None else wire.encoded_json(only))
    columns = [list(column) for column in zip(*map(wire.turn, commits), strict=True)]
    return sql.COMMIT_MANY, (*columns, wire.encoded_json(extras) if any(extras) else None)


def verdict_of(code: int, first: int, second: int) -> Verdict:
    """The verdict in the answer of a function."""
    match code:
        case 0:
            return Committed(first, second)
        case 1:
            return Fenced(first, second)
        case _:
            return Unread(first)
