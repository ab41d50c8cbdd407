"""What comes in from outside: new runs and messages. Callers that wait together share a transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from holdfast.adapters.postgres import statements as sql
from holdfast.adapters.postgres import wire
from holdfast.adapters.postgres.clock import Moments
from holdfast.adapters.postgres.knowing import ask_knowing
from holdfast.adapters.postgres.link import Link
from holdfast.adapters.postgres.problems import is_of_one
from holdfast.adapters.sql.rows import run_row
from holdfast.core.status import Status
from holdfast.ports.inbox import Accepted, Delivery, Ended, Message, Missing
from holdfast.ports.journal import Commit, Committed
from holdfast.ports.runs import Creation, Existing, Lacking, Made, NewRun

MADE, BY_ID, BY_KEY, LACKING = 0, 1, 2, 3


class NewEntry(msgspec.Struct, frozen=True):
    """A run to be made."""

    new: NewRun
    key_since: int
    instance: str
    worker: str
    first: Commit | None = None


Entry: TypeAlias = NewEntry | Message


class Entries:
    """The work of the lane of entries."""

    def __init__(self, link: Link, moments: Moments, tell: Callable[[Iterable[str]], None]) -> None:
        self._link = link
        self._moments = moments
        self._tell = tell

    def perform(self, work: Sequence[Entry]) -> Sequence[Any]:
        """An answer for each. Runs and messages go apart: a message to a run just being made comes after it anyway."""
        answers: dict[int, Any] = {}
        news = [(place, entry) for place, entry in enumerate(work) if isinstance(entry, NewEntry)]
        sent = [(place, entry) for place, entry in enumerate(work) if isinstance(entry, Message)]
        for group, ask in ((news, self._create), (sent, self._send)):
            if group:
                answers.update(_answered(group, ask))
        return [answers[place] for place in range(len(work))]

    def _create(self, entries: Sequence[NewEntry]) -> list[Creation]:
        sent = sent_as(entries)
        firsts = [entry.first for entry in entries if entry.first is not None]
        rows, is_again = ask_knowing(
            self._link,
            sql.CREATE,
            lambda is_again, known: (self._moments.wall(), sent, is_again, known),
            firsts,
        )
        self._tell(dict.fromkeys(run for row in rows for run in woken_by(row)))
        return [creation_of(row, is_again=is_again) for row in rows]

    def _send(self, messages: Sequence[Message]) -> list[Delivery]:
        sent = wire.encoded_json([wire.message(one) for one in messages])
        ((words,),) = self._link.ask(sql.SEND, (self._moments.wall(), sent))
        self._tell(dict.fromkeys(one.run for one, word in zip(messages, words, strict=True) if word == "accepted"))
        return [_delivery(word) for word in words]


def sent_as(entries: Iterable[NewEntry]) -> str:
    """Runs to be made, as `create_runs` takes them."""
    return wire.encoded_json(
        [
            wire.new_run(
                entry.new, since=entry.key_since, instance=entry.instance, worker=entry.worker, first=entry.first
            )
            for entry in entries
        ]
    )


def creation_of(row: Sequence[Any], *, is_again: bool) -> Creation:
    """What `create_runs` says of one run. `is_again`: an earlier try of ours may have made it."""
    code, is_ours, first_seq, first_inbox, _, *columns = row
    if code == LACKING:
        return Lacking()
    run = run_row(tuple(columns))
    if code == MADE or (code == BY_ID and is_ours and is_again):
        return Made(run, None if first_seq is None else Committed(first_seq, first_inbox))
    return Existing(run, by_key=code == BY_KEY)


def woken_by(row: Sequence[Any]) -> Sequence[str]:
    """Whom the run's making is to be told to."""
    woken: Sequence[str] = row[4]
    return woken


def _answered(group: Sequence[tuple[int, Any]], ask: Callable[[Sequence[Any]], Sequence[Any]]) -> dict[int, Any]:
    """All at once; if that breaks, each by itself, so that none can spoil another."""
    places = [place for place, _ in group]
    try:
        return dict(zip(places, ask([entry for _, entry in group]), strict=True))
    except Exception as error:  # noqa: BLE001 - whoever waits gets it
        if len(group) == 1 or not is_of_one(error):
            return dict.fromkeys(places, error)
    found: dict[int, Any] = {}
    for one in group:
        found.update(_answered([one], ask))
    return found


def _delivery(word: str) -> Delivery:
    match word:
        case "accepted":
            return Accepted()
        case "repeat":
            return Accepted(is_repeat=True)
        case "missing":
            return Missing()
        case _:
            return Ended(Status(word))
