"""Everything that a store keeps of one run, read to look for values in it and to write it anew without them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import msgspec

from holdfast.core import events as e
from holdfast.core.checksums import answer_checksum, message_checksum, parts_checksum, shown_checksum
from holdfast.core.commands import carry
from holdfast.core.erasure import Erasure
from holdfast.core.fold import fold
from holdfast.core.messages import decode_event, encode_event
from holdfast.core.redacted import Redacted
from holdfast.core.references import references_in, references_of
from holdfast.core.snapshot import past_of, rewritten, stand_in, unfolded_past, unpacked
from holdfast.core.turn import FORMAT, Row, Turn, checksum, decode_rows, encode_events, genesis, is_compacted
from holdfast.errors import CorruptJournal, RunNotFound
from holdfast.ports.contents import Contents, StoredMessage, StoredValue
from holdfast.ports.parts import StoredParts, pack, unpack
from holdfast.ports.rewritten import Rewritten, Source
from holdfast.ports.runs import RunRow
from holdfast.ports.store import Store
from holdfast.ports.updates import StoredAnswer
from holdfast.turn.commit import exposure
from holdfast.turn.payloads import blobs_named

PAGE = 200
"""Rows of a stream that are read together."""


@dataclass(frozen=True, slots=True)
class KeptContents:
    """What is kept of a run. `condensed` are the turns that a stand-in holds, `turns` those after it; `unread` are the
    messages that no turn took; `blobs` holds the payloads that are not in a row."""

    row: RunRow
    rows: list[Row]
    condensed: list[Turn]
    turns: list[Turn]
    contents: Contents
    unread: list[tuple[StoredMessage, e.AnyEvent]]
    parts: list[tuple[str, StoredParts]]
    blobs: dict[str, bytes]

    @property
    def partners(self) -> set[str]:
        """The runs that it exchanged messages with, or retried."""
        found = {watcher for watcher, _, _ in self.contents.adoptions}
        for turn in (*self.condensed, *self.turns):
            for event in turn.events:
                match event:
                    case e.MessageSent():
                        found.add(event.to)
                    case e.SignalReceived():
                        found.add(event.sender)
                    case e.Started():
                        found.add(event.retried_from)
                    case _:
                        pass
        return found - {"", self.row.id}

    def teach(self, erasure: Erasure) -> None:
        """Shows everything to one who looks for values."""
        for turn in (*self.condensed, *self.turns):
            for event in turn.events:
                erasure.learn_event(event, self.blobs)
        for _, event in self.unread:
            erasure.learn_event(event, self.blobs)
        for shown in self.contents.shown:
            erasure.learn(f"values.{shown.name}", _decoded(self.blobs[shown.blob] if shown.blob else shown.value))
        for answer in self.contents.answers:
            if answer.outcome:
                data = self.blobs[answer.blob] if answer.blob else answer.value
                erasure.learn(f"answers.{answer.message}", _decoded(data))
        for name, part in self.parts:
            for number, value in enumerate(unpack(part.packed), part.first):
                erasure.learn(f"streams.{name}.{number}", _decoded(value))

    def without(self, erasure: Erasure, said: Redacted) -> Rewritten:
        """All of it without the values, with the event that says so before the end."""
        references: dict[Source, tuple[str, ...]] = {}
        rows, segments = self._rows(erasure, said)
        for row, turn in zip(rows, turns := decode_rows(rows), strict=True):
            references["row", row.ordinal, ""] = references_of(turn.events)
        run = fold(self.row.id, turns)
        shown: list[StoredValue] = []
        for name in (value.name for value in self.contents.shown if value.name in run.exposed):
            new = exposure(run.exposed[name])
            shown.append(StoredValue(name, new.value, new.blob, shown_checksum(run.id, name, new.value, new.blob)))
            references["value", 0, name] = new.references
        rewritten = Rewritten(
            no=self.row.no,
            after=self.rows[-1].checksum,
            inbox_last=self.row.inbox_last,
            rows=rows,
            attributes=run.attributes,
            messages=self._messages(erasure, references),
            shown=shown,
            answers=self._answers(erasure, references),
            parts=[(name, made) for name, part in self.parts if (made := self._part(erasure, name, part)) != part],
            references={},
            blobs=erasure.blobs,
            segments=segments,
        )
        return msgspec.structs.replace(rewritten, references={key: names for key, names in references.items() if names})

    def _rows(self, erasure: Erasure, said: Redacted) -> tuple[list[Row], dict[str, bytes]]:
        rows, segments = list(self.rows), dict[str, bytes]()
        previous, made = genesis(self.row.id), list[Row]()
        if is_compacted(rows[0]):
            first = rows.pop(0)
            past, segments = self._past(erasure, first)
            made.append(past)
            previous = first.checksum
        for row, turn in zip(rows, self.turns, strict=True):
            events = erasure.turn(turn, self.blobs).events
            if row is rows[-1]:
                events = (*events[:-1], said, events[-1])
            body = encode_events(events)
            previous = checksum(previous, row.ordinal, row.epoch, row.at, body)
            made.append(msgspec.structs.replace(row, format=FORMAT, checksum=previous, body=body))
        return made, segments

    def _past(self, erasure: Erasure, first: Row) -> tuple[Row, dict[str, bytes]]:
        stored = decode_rows([first])[0].events[0]
        assert isinstance(stored, e.Compacted)
        run = unfolded_past(self.row.id, past_of(stored))
        erasure.run(run, self.blobs)
        past, blobs = rewritten(run, [erasure.turn(turn, self.blobs) for turn in self.condensed])
        return stand_in(past, first), blobs

    def _messages(self, erasure: Erasure, references: dict[Source, tuple[str, ...]]) -> list[StoredMessage]:
        """Those that were taken in lose their bodies, as when a journal is compacted."""
        unread = {message.no: event for message, event in self.unread}
        made: list[StoredMessage] = []
        for message in self.contents.messages:
            body = b""
            if (event := unread.get(message.no)) is not None:
                event = erasure.event(event, self.blobs)
                body, references["message", message.no, ""] = encode_event(event), references_of((event,))
            written = message_checksum(self.row.id, message.id, message.kind, body)
            made.append(msgspec.structs.replace(message, body=body, checksum=written))
        return made

    def _answers(self, erasure: Erasure, references: dict[Source, tuple[str, ...]]) -> list[StoredAnswer]:
        made: list[StoredAnswer] = []
        for answer in self.contents.answers:
            data = self.blobs[answer.blob] if answer.blob else answer.value
            without = erasure.payload(f"answers.{answer.message}", data) if answer.outcome else data
            value, blob, refs = answer.value, answer.blob, references_in(data)
            if without is not data:
                raw, blob, refs = carry(without, erasure.blobs)
                value = bytes(raw)
            references["answer", 0, answer.message] = (blob, *refs) if blob else refs
            written = answer_checksum(self.row.id, answer.message, answer.outcome, value, blob)
            made.append(StoredAnswer(answer.message, b"", answer.outcome, value, blob, written))
        return made

    def _part(self, erasure: Erasure, name: str, part: StoredParts) -> StoredParts:
        values = [bytes(value) for value in unpack(part.packed)]
        without = [erasure.payload(f"streams.{name}.{number}", x) for number, x in enumerate(values, part.first)]
        if without == values:
            return part
        packed = pack(without)
        written = parts_checksum(self.row.id, name, part.step, part.attempt, part.epoch, packed)
        return msgspec.structs.replace(part, packed=packed, checksum=written)


async def read_contents(store: Store, row: RunRow) -> KeptContents:
    """Reads everything. Raises `RunNotFound` if the run is gone, and `CorruptJournal` for what cannot be read."""
    rows = list((await store.read({row.no: 1}))[row.no])
    contents = await store.contents(row.no)
    if contents is None or not rows:
        raise RunNotFound(f"no run {row.id!r} in {store.url}")
    turns, condensed = decode_rows(rows), list[Turn]()
    if is_compacted(rows[0]):
        stored = turns.pop(0).events[0]
        assert isinstance(stored, e.Compacted)
        names = [segment.blob for segment in stored.segments]
        condensed = unpacked(row.id, stored.segments, await store.get_blobs(names))
    unread = [(message, decode_event(message.body)) for message in contents.messages if not message.consumed]
    parts = [part async for part in _parts(store, row.id)]
    events = [Turn(row.id, 0, 0, row.created_at, (event,), b"") for _, event in unread]
    wanted = blobs_named([*condensed, *turns, *events])
    wanted |= {shown.blob for shown in contents.shown} | {answer.blob for answer in contents.answers}
    wanted.discard("")
    there = await store.known_blobs(sorted(wanted))
    blobs = dict.fromkeys(wanted, b"null") | dict(await store.get_blobs(there))
    return KeptContents(row, rows, condensed, turns, contents, unread, parts, blobs)


async def _parts(store: Store, run: str) -> AsyncIterator[tuple[str, StoredParts]]:
    for name in await store.streams_of(run):
        after = -1
        while (page := await store.read_parts(run, name, after=after, limit=PAGE)) is not None and page.rows:
            for part in page.rows:
                if part.checksum != parts_checksum(run, name, part.step, part.attempt, part.epoch, part.packed):
                    raise CorruptJournal(
                        f"run {run}: stream {name!r} was changed or damaged; see holdfast verify {run}"
                    )
                yield name, part
            after = page.rows[-1].end - 1


def _decoded(data: bytes | msgspec.Raw) -> object:
    return msgspec.json.decode(data)


async def held_blobs(store: Store, names: Sequence[str]) -> AsyncIterator[tuple[str, bytes]]:
    """The blobs of these names, and those that they refer to, at any depth."""
    seen: set[str] = set()
    wanted = sorted(await store.known_blobs(sorted(names)))
    while wanted:
        seen.update(wanted)
        for name in wanted:
            yield name, await store.get_blob(name)
        held = await store.blob_references(wanted)
        inner = {one for found in held.values() for one in found} - seen
        wanted = sorted(await store.known_blobs(sorted(inner)))
