"""New runs and messages from outside. Callers that wait at the same time share a transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec

from holdfast.adapters.postgres import statements as sql
from holdfast.adapters.postgres import wire
from holdfast.adapters.postgres.clock import Moments
from holdfast.adapters.postgres.fast_path import Lone
from holdfast.adapters.postgres.lane import Lane
from holdfast.adapters.postgres.link import Link, Owed
from holdfast.adapters.postgres.problems import is_of_one
from holdfast.adapters.postgres.server_questions import ask_knowing
from holdfast.adapters.sql.batches import settle
from holdfast.adapters.sql.rows import run_row, status_of
from holdfast.ports.inbox import Accepted, Delivery, Ended, Message, Missing
from holdfast.ports.journal import Commit, Committed
from holdfast.ports.runs import Creation, Existing, Joined, Lacking, Made, NewRun

W = TypeVar("W")

MADE, BY_ID, BY_KEY, LACKING, BY_UNIQUE, JOINED = 0, 1, 2, 3, 4, 5


class NewEntry(msgspec.Struct, frozen=True):
    """A run to make. `owed`: its statement was sent already, and the answer is still to come."""

    new: NewRun
    key_since: int
    instance: str
    worker: str
    first: Commit | None = None
    owed: Owed | None = None


Entry: TypeAlias = NewEntry | Message


class Entries:
    """The work of the lane for new runs and messages."""

    def __init__(self, link: Link, moments: Moments, tell: Callable[[Iterable[str]], None]) -> None:
        self._link = link
        self._lone = Lone(link)
        self._moments = moments
        self._tell = tell

    def now(self, entry: NewEntry) -> Creation | NewEntry:
        """Makes the run on this thread, or returns what the lane has left to do."""
        plain = self._plain(entry)
        rows = None if plain is None else self._lone.ask(sql.CREATE_PLAIN, plain)
        if isinstance(rows, Owed):
            return msgspec.structs.replace(entry, owed=rows)
        return self._made(entry, rows[0]) if rows else entry

    def _plain(self, entry: NewEntry) -> tuple[Any, ...] | None:
        return wire.plain_run(
            entry.new, self._moments.wall(), instance=entry.instance, worker=entry.worker, first=entry.first
        )

    def _made(self, entry: NewEntry, row: Sequence[Any]) -> Made:
        seq, *columns = row
        if not entry.instance:
            self._tell((entry.new.row.run,))
        return Made(run_row(tuple(columns)), None if entry.first is None else Committed(seq, 0))

    def perform(self, work: Sequence[Entry]) -> Sequence[Any]:
        """Answers each entry. Runs and messages are separate: a message to a run that is just being made comes after it
        anyway. An entry whose answer is owed goes first, and alone."""
        with self._lone.turn:
            return self._performed(work)

    def _performed(self, work: Sequence[Entry]) -> Sequence[Any]:
        answers: dict[int, Any] = {}
        news = [(place, entry) for place, entry in enumerate(work) if isinstance(entry, NewEntry)]
        owed = [one for one in news if one[1].owed is not None]
        rest = [one for one in news if one[1].owed is None]
        sent = [(place, entry) for place, entry in enumerate(work) if isinstance(entry, Message)]
        for group in (*([one] for one in owed), rest):
            answers.update(_settled(group, self._create))
        answers.update(_settled(sent, self._send))
        return [answers[place] for place in range(len(work))]

    def _create(self, entries: Sequence[NewEntry]) -> list[Creation]:
        was_tried = False
        if len(entries) == 1:
            rows, was_tried = self._alone(entries[0])
            if rows:
                return [self._made(entries[0], rows[0])]
        sent = sent_as(entries)
        firsts = [entry.first for entry in entries if entry.first is not None]
        rows, is_again = ask_knowing(
            self._link,
            sql.CREATE,
            lambda is_again, known: (self._moments.wall(), sent, is_again or was_tried, known),
            firsts,
        )
        is_again = is_again or was_tried
        self._tell(dict.fromkeys(run for row in rows for run in woken_by(row)))
        return [creation_of(row, is_again=is_again) for row in rows]

    def _alone(self, entry: NewEntry) -> tuple[Sequence[Any], bool]:
        """The answer of the statement for one run. Without a row, also whether the statement may have made the run
        nevertheless."""
        if entry.owed is not None:
            self._link.settle(entry.owed)
            return entry.owed.rows or (), entry.owed.rows is None
        plain = self._plain(entry) if self._link.takes_plain else None
        if plain is None:
            return (), False
        return self._link.ask(sql.CREATE_PLAIN, plain), self._link.is_again

    def _send(self, messages: Sequence[Message]) -> list[Delivery]:
        sent = wire.encoded_json([wire.message(one) for one in messages])
        ((words,),) = self._link.ask(sql.SEND, (self._moments.wall(), sent))
        self._tell(dict.fromkeys(one.run for one, word in zip(messages, words, strict=True) if word == "accepted"))
        return [delivery_of(word) for word in words]


class Entrance:
    """The way in. A caller that is alone in a pass of an event loop is served when the pass ends. From the second
    caller on, all go through the lane, which works on the first while the others still arrive."""

    def __init__(self, entries: Entries, lane: Lane[Entry]) -> None:
        self._entries = entries
        self.lane = lane
        self._first: dict[asyncio.AbstractEventLoop, tuple[Entry, asyncio.Future[Any]] | None] = {}

    def ask(self, entry: Entry) -> asyncio.Future[Any]:
        """Returns the answer once it is durable. Cancelling the caller takes nothing back."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        if loop not in self._first:
            self._first[loop] = (entry, answer)
            loop.call_soon(self._end_pass, loop)
            return answer
        first, self._first[loop] = self._first[loop], None
        if first is not None:
            self.lane.put(*first)
        self.lane.put(entry, answer)
        return answer

    def _end_pass(self, loop: asyncio.AbstractEventLoop) -> None:
        alone = self._first.pop(loop)
        if alone is None:
            return
        entry, answer = alone
        try:
            came = self._entries.now(entry) if isinstance(entry, NewEntry) else entry
        except Exception as error:  # noqa: BLE001 - raised for the waiter
            if not answer.done():
                answer.set_exception(error)
            return
        if isinstance(came, NewEntry | Message):
            self.lane.put(came, answer)
        elif not answer.done():
            answer.set_result(came)


def sent_as(entries: Iterable[NewEntry]) -> str:
    """The runs in the form that `create_runs` takes."""
    return wire.encoded_json(
        [
            wire.new_run(
                entry.new, since=entry.key_since, instance=entry.instance, worker=entry.worker, first=entry.first
            )
            for entry in entries
        ]
    )


def creation_of(row: Sequence[Any], *, is_again: bool) -> Creation:
    """What `create_runs` answered for one run. `is_again`: an earlier try may have made it."""
    code, is_ours, first_seq, first_inbox, _, *columns = row
    if code == LACKING:
        return Lacking()
    run = run_row(tuple(columns))
    if code == MADE or (code == BY_ID and is_ours and is_again):
        return Made(run, None if first_seq is None else Committed(first_seq, first_inbox))
    if code == JOINED:
        return Joined(run)
    return Existing(run, by="key" if code == BY_KEY else "unique" if code == BY_UNIQUE else "id")


def woken_by(row: Sequence[Any]) -> Sequence[str]:
    """The runs and queues to notify of the new run."""
    woken: Sequence[str] = row[4]
    return woken


def _settled(group: Sequence[tuple[int, W]], ask: Callable[[Sequence[W]], Sequence[Any]]) -> dict[int, Any]:
    """Sets an answer for each entry of the group."""
    if not group:
        return {}
    places, entries = zip(*group, strict=True)
    return dict(zip(places, settle(entries, ask, is_of_one), strict=True))


def delivery_of(word: str) -> Delivery:
    """The delivery in the answer of a function of the schema."""
    match word:
        case "accepted":
            return Accepted()
        case "repeat":
            return Accepted(is_repeat=True)
        case "missing":
            return Missing()
        case _:
            return Ended(status_of(word))
