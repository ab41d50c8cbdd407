"""Snapshots: the fold of a journal up to a row, and what a replay needs of the rows before, packed.

The fold is not the program: a script is rebuilt by replaying its turns. So a snapshot holds both. Of the turns it keeps
what a replay reads or compares, in the order of delivery: outcomes, messages, timers, and what the code asked for. It
leaves out claims, releases, pauses and resumes, attempts that failed before another, and everything before the last
`continue_as` except the start, untaken signals, and the children that a cancel must reach.

Turns are packed in segments, one for each snapshot, and a segment is never written again: what a snapshot costs depends
on the rows since the last one, not on the length of the run.

`Compacted` holds the same two things as an event. Invariant: whatever is loaded from a snapshot or a stand-in, with the
rows after it, folds to the same run and replays to the same commands as the whole journal.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from holdfast.core import events as e
from holdfast.core.fold import folded, unfolded
from holdfast.core.payload import hash_of
from holdfast.core.references import references_of, segment_references
from holdfast.core.run import Run
from holdfast.core.turn import FORMAT, UNREADABLE, Row, Turn, is_other, lifted, sealed
from holdfast.errors import CorruptJournal

MOST_BETWEEN = 10_000
"""Rows between two snapshots of a very long run."""

MOST_UNPACKED = 1 << 30
"""Maximum bytes of a segment, more than a journal of that many rows can hold."""

_DIGEST = 16
_EVENTS = Turn.__struct_fields__.index("events")
_ABOUT = frozenset((e.Claimed, e.Released, e.Paused, e.Resumed, e.PredecessorEnded))
_LEFT_OUT = frozenset((*_ABOUT, e.AttemptFailed, e.AttemptStarted))
_encoder = msgspec.json.Encoder()
_turns: msgspec.json.Decoder[list[Turn]] = msgspec.json.Decoder(list[Turn])


class Past(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A fold, and the segments that hold the condensed turns it was made from. `format` says how the fold was written;
    that of a stand-in has been lifted with it."""

    fold: msgspec.Raw
    segments: tuple[e.Segment, ...] = ()
    format: int = 1


_pasts: msgspec.json.Decoder[Past] = msgspec.json.Decoder(Past)


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """A `Past` as a store keeps it. `ordinal` and `checksum` are those of the last row it covers."""

    ordinal: int
    checksum: bytes
    body: bytes


def is_due(every: int, ordinal: int, last: int) -> bool:
    """Whether a run at `ordinal` needs a snapshot, if the last one was at `last`. The distance grows with the length,
    so that the work of all snapshots together stays linear. `every` = 0: never."""
    return every > 0 and ordinal - last >= max(every, min(last // 20, MOST_BETWEEN))


def advance(run_id: str, base: Past | None, turns: Sequence[Turn]) -> tuple[Past, dict[str, bytes]]:
    """The past after these turns, which follow `base` (None: they are the beginning), and its new blob."""
    run = Run(run_id) if base is None else unfolded_past(run_id, base)
    segments = () if base is None else base.segments
    kept, begins_anew = _condensed(run, turns)
    if begins_anew:
        segments = ()
    blobs: dict[str, bytes] = {}
    if kept:
        segment, data = _packed(kept)
        segments = (*segments, segment)
        blobs[segment.blob] = data
    return Past(folded(run), segments, FORMAT), blobs


def unfolded_past(run_id: str, past: Past) -> Run:
    """The fold of a past whose digest or seal was checked; it says how far it reaches."""
    return unfolded(run_id, past.fold)


def _condensed(run: Run, turns: Iterable[Turn]) -> tuple[list[Turn], bool]:
    """Applies the turns to the fold. Returns what is kept of them, and whether everything before them is forgotten."""
    kept: list[Turn] = []
    begins_anew = False
    for turn in turns:
        run.apply(turn)
        begin = turn.events[-1] if turn.events else None
        if isinstance(begin, e.Continued):
            begins_anew = True
            kept = [
                Turn("", 1, 0, run.created_at or turn.at, (_start_of(run),), b""),
                Turn("", turn.ordinal, 0, turn.at, (*_left_by(run), *run.buffered.values(), begin), b""),
            ]
            continue
        events = turn.events
        if any(type(event) in _LEFT_OUT for event in events):
            if _is_about(events):
                continue
            is_paused = any(type(event) is e.InputGiven for event in events)  # with it: the body did not begin then
            events = tuple(x for x in events if type(x) not in _LEFT_OUT or (is_paused and type(x) is e.Paused))
            # An empty turn may be the one in which the body began, unless a step was already known in it.
            if not events and _knows_steps(turn.events):
                continue
        kept.append(Turn("", turn.ordinal, 0, turn.at, events, b""))
    return kept, begins_anew


def rewritten(run: Run, turns: list[Turn]) -> tuple[Past, dict[str, bytes]]:
    """A past of this fold and these condensed turns, which stood in another one, and its blobs."""
    segment, data = _packed(turns)
    return Past(folded(run), (segment,), FORMAT), {segment.blob: data}


def _left_by(run: Run) -> Iterator[e.ChildStarted]:
    """The children that earlier passes of the run left behind, as far as a cancel needs to know them."""
    for child, name in run.left.items():
        yield e.ChildStarted(key=child, run=child, workflow=name, on_cancel="cancel", awaited=False)


def _is_about(events: Sequence[e.AnyEvent]) -> bool:
    kinds = {type(event) for event in events}
    return kinds <= _ABOUT and not kinds.isdisjoint((e.Paused, e.Resumed))


def _knows_steps(events: Sequence[e.AnyEvent]) -> bool:
    for event in events:
        if isinstance(event, e.AttemptFailed | e.AttemptStarted):
            return True
        if isinstance(event, e.Claimed) and (event.restarted or event.begun):
            return True
    return False


def _start_of(run: Run) -> e.Started:
    """The start of a run that restarted: everything but its arguments."""
    return e.Started(
        workflow=run.workflow,
        version=run.version,
        code=run.code,
        codec=run.codec,
        queue=run.queue,
        priority=run.priority,
        key=run.key,
        available_at=run.available_at,
        deadline=run.deadline,
        parent=run.parent,
        parent_key=run.parent_key,
        root=run.root,
        on_cancel=run.on_cancel,
        attributes=run.attributes,
        retried_from=run.retried_from,
        style=run.style,
        keep=run.keep,
        trace=run.trace,
    )


# -- segments ----------------------------------------------------------------------------------------------------------


def _packed(turns: list[Turn]) -> tuple[e.Segment, bytes]:
    plain = _encoder.encode(turns)
    data = zlib.compress(plain, 1)
    names = references_of(event for turn in turns for event in turn.events)
    return e.Segment(hash_of(data), turns[0].ordinal, turns[-1].ordinal, names, FORMAT), data


def unpacked(run_id: str, segments: Iterable[e.Segment], blobs: Mapping[str, bytes]) -> list[Turn]:
    """The condensed turns of these segments, in order."""
    turns: list[Turn] = []
    for segment in segments:
        try:
            unpacking = zlib.decompressobj()
            plain = unpacking.decompress(blobs[segment.blob], MOST_UNPACKED)
            if unpacking.unconsumed_tail:
                raise CorruptJournal(f"run {run_id}: segment {segment.blob} unpacks to more than a segment may hold")
            turns += _turns.decode(_lifted(run_id, segment, plain) if is_other(segment.format) else plain)
        except (*UNREADABLE, zlib.error) as error:
            raise CorruptJournal(f"run {run_id}: segment {segment.blob} does not decode: {error}") from error
    return turns


def _lifted(run_id: str, segment: e.Segment, plain: bytes) -> bytes:
    """A segment of another format, as current code would have packed it."""
    turns: Any = msgspec.json.decode(plain)
    for turn in turns:
        turn[_EVENTS] = lifted(turn[_EVENTS], segment.format, f"run {run_id}: segment {segment.blob}")
    return _encoder.encode(turns)


# -- as a store keeps it -----------------------------------------------------------------------------------------------


def to_snapshot(past: Past, ordinal: int, checksum: bytes) -> Snapshot:
    """As the table of snapshots holds it."""
    body = _encoder.encode(past)
    return Snapshot(ordinal, checksum, _digest(ordinal, checksum, body) + body)


def from_snapshot(run_id: str, snapshot: Snapshot) -> Past:
    """The inverse. Raises `CorruptJournal` if the snapshot is invalid; then the journal is read instead."""
    digest, body = snapshot.body[:_DIGEST], snapshot.body[_DIGEST:]
    if digest != _digest(snapshot.ordinal, snapshot.checksum, body):
        raise CorruptJournal(f"run {run_id}: the checksum of its snapshot up to row {snapshot.ordinal} does not match")
    try:
        past = _pasts.decode(body)
    except UNREADABLE as error:
        raise CorruptJournal(f"run {run_id}: its snapshot does not decode: {error}") from error
    if is_other(past.format):
        raise CorruptJournal(f"run {run_id}: its snapshot has event format {past.format}, this code writes {FORMAT}")
    return past


def stand_in(past: Past, replaced: Row) -> Row:
    """The row that replaces `replaced` and all the rows before it."""
    return sealed(replaced, e.Compacted(rows=replaced.ordinal, fold=past.fold, segments=past.segments))


def references_of_past(past: Past) -> tuple[str, ...]:
    """The references of a snapshot or a compacted row. Those of the fold are in a packed turn or an exposed value."""
    return segment_references(past.segments)


def past_of(event: e.Compacted) -> Past:
    """The past in a compacted row."""
    return Past(event.fold, event.segments, FORMAT)


def _digest(ordinal: int, checksum: bytes, body: bytes) -> bytes:
    digest = blake2b(checksum, digest_size=_DIGEST)
    digest.update(b"%d:" % ordinal)
    digest.update(body)
    return digest.digest()
