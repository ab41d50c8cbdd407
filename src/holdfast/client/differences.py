"""Compares what a store says about a run with its journal. Pure: each function names what is wrong.

Columns fixed when a run is made are compared with the fact that started it, and columns that follow from the journal
with the fold. Messages and exposed values have checksums. The columns that schedule a run (when it is available, its
holder, its number of claims) do not follow from the journal. They must be consistent; apart from that, a wrong value
can delay a run but changes no result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise

from holdfast.core.checksums import answer_checksum, message_checksum, shown_checksum
from holdfast.core.doing import decode_doing
from holdfast.core.plurals import counted
from holdfast.core.projection import Projection, project
from holdfast.core.run import Run
from holdfast.core.snapshot import from_snapshot
from holdfast.core.status import Status
from holdfast.core.turn import Row, micros
from holdfast.errors import CorruptJournal, HoldfastError
from holdfast.ports.contents import Contents, StoredMessage
from holdfast.ports.runs import RunRow

UNCHECKED = {
    "when it is available, worker, claims, bounces, note": "not in the journal; they can only delay a run",
    "when a message came": "nothing reads it",
    "kind, size and age of a blob": "only the report of space and the collection of blobs read them",
    "the hash of what an update asked": "it only tells a repeat from a different question under the same id",
    "workers, duties": "they are written again all the time",
}
"""What `verify` cannot check, and why that changes no result."""

_FIXED = ("code", "codec", "queue", "priority", "key", "parent", "parent_key", "root", "deadline", "attributes")
_OPEN = (Status.PENDING, Status.RUNNING)


def of_row(row: RunRow, run: Run, rows: Sequence[Row]) -> Iterator[str]:
    """Differences between the row and the journal."""
    if run.ordinal + 1 != row.next_ordinal:
        yield f"its row says that ordinal {row.next_ordinal} is next, its journal ends at {run.ordinal}"
    expected = project(run)
    for name in Projection.__struct_fields__:
        said, meant = getattr(row, name), getattr(expected, name)
        if name == "doing":
            with suppress(HoldfastError):
                said, meant = decode_doing(said), decode_doing(meant)
        if said != meant:
            yield f"its row says {name} = {said!r}, its journal {meant!r}"
    for name in (*_FIXED, "created_at", "updated_at", "ended_at"):
        said, meant = getattr(row, name), getattr(run, name)
        if said != meant:
            yield f"its row says {name} = {said!r}, its journal {meant!r}"
    if row.epoch < run.epoch:
        yield f"its row says epoch = {row.epoch}, its journal reaches {run.epoch}"
    if any(row.seq < 1 for row in rows) or any(after.seq < before.seq for before, after in pairwise(rows)):
        yield "the rows of its journal are not stored in their order (seq)"


def of_contents(row: RunRow, run: Run, contents: Contents) -> Iterator[str]:
    """Differences between the run's other data and its row and journal."""
    yield from contents.problems
    if contents.keep != run.keep:
        yield f"its row says keep = {contents.keep}, its journal {run.keep}"
    is_claimable = row.status in _OPEN and not row.instance and row.available_at is not None
    if contents.is_offered is not is_claimable:
        how = "is offered to workers" if contents.is_offered else "is not offered to workers"
        yield f"it {how}, and by its status, holder and time it would {'not be' if contents.is_offered else 'be'}"
    yield from _of_messages(row, contents.messages)
    yield from _of_shown(run, contents)
    yield from _of_answers(run, contents)
    waits = {(wait.name, wait.key, micros(wait.since)) for wait in run.waits.values() if wait.kind == "topic"}
    watches = set(contents.watches)
    expected = waits if run.end is None else set[tuple[str, str, int]]()
    for topic, key, _ in sorted(watches ^ expected):
        yield f"its wait {key!r} on topic {topic!r} is not among the watchers as its journal has it"
    for watcher, key, message in contents.adoptions:
        if not message.startswith(f"ended:{key}:") or run.end is not None:
            yield f"run {watcher!r} is noted as waiting for its end under {key!r} but does not wait for it"
    if contents.snapshot is not None:
        try:
            from_snapshot(run.id, contents.snapshot)
        except CorruptJournal as error:
            yield f"{str(error).removeprefix(f'run {run.id}: ')}; its journal is read instead, and nothing is lost"


def _of_messages(row: RunRow, messages: Sequence[StoredMessage]) -> Iterator[str]:
    count = Counter(message.no for message in messages)
    if row.inbox_read > row.inbox_last:
        yield f"its row says that messages up to {row.inbox_read} were read, and that {row.inbox_last} were sent"
    for number in range(1, min(row.inbox_last, max(count, default=0) + 1) + 1):
        if not count[number]:
            yield f"message {number} in its inbox is missing; {len(messages)} of {row.inbox_last} are there"
    for number in (number for number, times in count.items() if times > 1):
        yield f"message {number} in its inbox is there more than once"
    for message in messages:
        number = message.no
        if not 0 < number <= row.inbox_last:
            yield f"message {number} in its inbox has a number that was never assigned; the last is {row.inbox_last}"
        if bool(message.consumed) is not (number <= row.inbox_read):
            how = "was taken in" if message.consumed else "is unread"
            yield f"message {number} in its inbox {how}, and its row says that {row.inbox_read} were read"
        if not 0 <= message.consumed < row.next_ordinal:
            yield f"message {number} in its inbox was taken in by row {message.consumed}, which is not there"
        holds = message.checksum == message_checksum(row.id, message.id, message.kind, message.body)
        if message.checksum and not holds:
            yield f"message {number} in its inbox was changed or damaged: its checksum does not match"


def _of_shown(run: Run, contents: Contents) -> Iterator[str]:
    shown = {value.name: value for value in contents.shown}
    for name in sorted(shown.keys() ^ run.exposed.keys()):
        where = "its journal does not have" if name in shown else "is not stored where it can be read"
        yield f"the value it shows as {name!r} {where}"
    for name, value in shown.items():
        known = run.exposed.get(name)
        if value.checksum and value.checksum != shown_checksum(run.id, name, value.value, value.blob):
            yield f"the value it shows as {name!r} was changed or damaged: its checksum does not match"
        elif known is not None and (value.value, value.blob) != (bytes(known.value), known.blob):
            yield f"the value it shows as {name!r} is not the last one in its journal"


def _of_answers(run: Run, contents: Contents) -> Iterator[str]:
    known = {answer.message: answer for answer in contents.answers}
    for message, answer in known.items():
        if answer.checksum != answer_checksum(run.id, message, answer.outcome, answer.value, answer.blob):
            yield f"the answer to its update {message!r} was changed or damaged: its checksum does not match"
        elif run.end is not None and not answer.outcome:
            yield f"its update {message!r} has no answer, and the run has ended"
    for message in run.asked if run.end is None else ():
        if message in known and known[message].outcome:
            yield f"its update {message!r} is answered, and its journal has no answer"


def notes_on(row: RunRow, run: Run, contents: Contents) -> Iterator[str]:
    """What cannot be checked and deserves a note."""
    old = [message.no for message in contents.messages if not message.checksum]
    if old:
        verb = "was" if len(old) == 1 else "were"
        yield (
            f"{counted(len(old), 'message')} in its inbox {verb} written before checksums existed and cannot be checked"
        )
    if any(not value.checksum for value in contents.shown):
        yield "values it shows were written before checksums existed; they are compared with its journal"
    is_asleep = row.status is Status.RUNNING and not row.instance and row.available_at is None
    if is_asleep and (run.retries or any(wait.until is not None for wait in run.waits.values())):
        yield "it waits for a time, and nothing wakes it then"
