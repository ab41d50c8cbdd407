"""One write to the memory store, step by step. The caller holds the lock; `hints` are for the listeners afterwards.

Rows of runs are replaced, never changed, so what a reader holds never changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from holdfast.adapters.memory import gate_places, uniques
from holdfast.adapters.memory.answer_rows import put_answer, put_question
from holdfast.adapters.memory.stream_rows import add_parts
from holdfast.adapters.memory.tables import Adoption, Blob, Letter, Source, Tables, Watch
from holdfast.core import events as e
from holdfast.core.checksums import message_checksum, shown_checksum
from holdfast.core.mailbox import apply_attributes
from holdfast.core.messages import ended_by, id_in_use, told_at_end, undelivered_id, with_key, with_status
from holdfast.core.status import Status
from holdfast.core.suspicion import NONE, Suspicion, Weight, after_death, taken_back, weight
from holdfast.core.turn import Row, instant
from holdfast.ports.admission import may_begin
from holdfast.ports.blobs import BlobData, BlobKind, Stub, held_by, kind_of
from holdfast.ports.contents import StoredValue
from holdfast.ports.inbox import Accepted, Delivery, Ended, Message, Missing, Publication
from holdfast.ports.inbox import message as message_of
from holdfast.ports.journal import Commit, Committed, Fenced, Unread, Verdict
from holdfast.ports.parts import STREAMS
from holdfast.ports.row import moved
from holdfast.ports.runs import Creation, Existing, Lacking, Made, NewRun, RunRow, row_of
from holdfast.ports.updates import UpdateAnswer


@dataclass(slots=True)
class Transaction:
    """What one call writes, at one instant."""

    tables: Tables
    now: datetime
    hints: dict[str, None] = field(default_factory=dict[str, None])

    # -- runs ----------------------------------------------------------------------------------------------------------

    def create(
        self, new: NewRun, key_since: datetime, instance: str, worker: str, first: Commit | None = None
    ) -> Creation:
        """Makes the run, unless its id, key or unique value is in use or a blob it needs is gone."""
        run = self.tables.run(new.row.run)
        if run is not None:
            return Existing(run)
        key, workflow = new.started.key, new.started.workflow
        for run in self.tables.runs.values() if key else ():
            if run.key == key and run.workflow == workflow and run.created_at > key_since:
                return Existing(run, by="key")
        holder = uniques.holder_of(self.tables, new)
        if holder is not None and (met := uniques.met(self, holder, new)) is not None:
            return met
        if not self.tables.blobs.keys() >= set(new.needs):
            return Lacking()
        made = self.insert(new, instance if new.replaces is None else "", worker)
        if new.replaces is not None:
            made = uniques.succeed(self, made, new, holder)
        if new.message is not None:
            self.send(new.message)
        if first is None or not made.instance:
            return Made(made)
        verdict = self.commit(msgspec.structs.replace(first, no=made.no))
        assert isinstance(verdict, Committed), verdict
        return Made(made, verdict)

    def insert(self, new: NewRun, instance: str = "", worker: str = "") -> RunRow:
        """Adds the run's row and the first row of its journal."""
        tables, started = self.tables, new.started
        no, available_at = tables.last_no + 1, started.available_at or self.now
        run = row_of(new, no, available_at)
        share = gate_places.share_at_gate(tables, new)
        if instance and not share and may_begin(run, self.now):
            run = row_of(new, no, available_at, instance, worker)
        tables.last_no = run.no
        tables.numbers[run.id] = run.no
        tables.runs[run.no] = run
        tables.rows[run.no] = []
        tables.inbox[run.no] = {}
        gate_places.wait(tables, run, share, self.now)
        if new.unique:
            tables.uniques[started.workflow, new.unique] = run.no
            uniques.gather(tables, new)
        if started.keep is not None:
            tables.keep[run.no] = started.keep
        self.keep_blobs(new.blobs)
        self._append(run.no, new.row, new.references)
        self.hints[run.id] = None
        return run

    def free(self, runs: Iterable[RunRow]) -> list[str]:
        """Releases the runs: they are available now, and their epochs stay."""
        found = list(runs)
        weights = {run.instance: self._weight(run.instance) for run in found}  # before any of them leaves
        freed = [self._free(run, weights[run.instance] if run.suspicion.is_suspect else 0).id for run in found]
        self.hints.update(dict.fromkeys(freed))
        return freed

    def _weight(self, instance: str) -> Weight:
        aboard = [run for run in self.tables.runs.values() if run.instance == instance]
        return weight(suspects=sum(run.suspicion.is_suspect for run in aboard), held=len(aboard))

    def _free(self, run: RunRow, added: Weight) -> RunRow:
        self.tables.freed[run.no] = run.instance, added
        self._suspect(run.no, after_death(run.suspicion, run.claims, added))
        freed = self._change(run.no, instance="", available_at=self.now)
        if not run.claims:  # it was taken past the gate of its queue
            gate_places.give_place_back(self.tables, run.no, self.now)
        return freed

    def take_back(self, instance: str, runs: Iterable[RunRow]) -> None:
        """The instance had not died after all: takes back what its end counted against these runs."""
        for run in runs:
            holder, added = self.tables.freed.get(run.no, ("", 0))
            if holder == instance and run.suspicion.is_suspect:
                del self.tables.freed[run.no]
                claims = max(0, run.claims - 1)
                self._suspect(run.no, taken_back(run.suspicion, added) if claims else NONE)  # only claims are blamed
                self._change(run.no, claims=claims)

    def acquit(self, run: RunRow) -> None:
        """Clears the counts that make the run a suspect."""
        self._suspect(run.no, NONE)

    def _suspect(self, no: int, suspicion: Suspicion) -> None:
        self._change(no, deaths=suspicion.deaths, solo=suspicion.solo, alone=suspicion.alone)

    def keep_blobs(self, blobs: Iterable[tuple[str, BlobData]], kind: BlobKind = "payload") -> None:
        """Stores the bytes under their names. A blob that exists stays, and its age starts again at zero."""
        for name, data in blobs:
            known = self.tables.blobs.get(name)
            held = frozenset(one for one in held_by(data) if one in self.tables.blobs)
            if known is not None:
                known.at = self.now
                known.names |= held
            elif isinstance(data, Stub):
                self.tables.blobs[name] = Blob(None, data.size, kind_of(data, kind), self.now, held)
            else:
                self.tables.blobs[name] = Blob(bytes(data), len(data), kind_of(data, kind), self.now, held)

    def refer(self, no: int, source: Source, names: Iterable[str]) -> None:
        """Replaces the references of that part of the run by these, as far as the blobs exist."""
        of_run = self.tables.references.setdefault(no, {})
        before = of_run.pop(source, frozenset[str]())
        found = frozenset(name for name in names if name in self.tables.blobs)
        if found:
            of_run[source] = found
        self.lose(before - found)

    def lose(self, names: Iterable[str]) -> None:
        """Starts the grace of these blobs: they lost a reference."""
        for name in names:
            if name in self.tables.blobs:
                self.tables.blobs[name].at = self.now

    # -- messages ------------------------------------------------------------------------------------------------------

    def send(self, message: Message) -> Delivery:
        """Puts a message into the inbox and wakes the run."""
        run = self.tables.run(message.run)
        if run is None:
            return Missing()
        letters = self.tables.inbox[run.no]
        is_asked = bool(message.asks) and message.id in self.tables.answers.get(run.no, {})  # its message was dropped
        if message.id in letters or is_asked:
            return Accepted(is_repeat=True)
        if run.status.is_terminal:
            return Ended(run.status)
        self.put(run, message)
        woken = self._change(run.no, available_at=min(run.available_at or self.now, self.now))
        gate_places.wake(self.tables, woken, message.kind, self.now)
        if message.asks:
            put_question(self.tables, run, message.id, message.asks)
        self.hints[run.id] = None
        return Accepted()

    def put(self, run: RunRow, message: Message) -> None:
        """Into the inbox, and nothing else."""
        self._change(run.no, inbox_last=(no := run.inbox_last + 1))
        self.tables.inbox[run.no][message.id] = Letter(no, message.id, message.kind, message.body, message.checksum)
        self.keep_blobs(message.blobs)
        self.refer(run.no, ("message", no), message.references)

    def settle(self, run: RunRow, answers: Iterable[UpdateAnswer]) -> None:
        """Records the outcomes of questions to the run, and tells the runs that wait for them."""
        for answer in answers:
            if put_answer(self.tables, run, answer):
                self.refer(run.no, ("answer", answer.message), answer.references)
            self.hints[run.id] = None

    def _tell_sender(self, no: int, message: Message, refused: Ended | Missing) -> None:
        """Tells the sender the outcome of a message from its own turn, whose row is written. A run that ended with it
        keeps the outcome and is not woken."""
        run = self.tables.runs[no]
        why = refused.status.value if isinstance(refused, Ended) else "missing"
        name, last = undelivered_id(message.id), run.inbox_last + 1
        body = with_status(message.reply, why)
        checksum = message_checksum(run.id, name, "undelivered", body)
        self.tables.inbox[no][name] = Letter(last, name, "undelivered", body, checksum)
        self._change(no, inbox_last=last)
        if not run.status.is_terminal:
            self._change(no, available_at=min(run.available_at or self.now, self.now))
            self.hints[run.id] = None

    def replace(self, message: Message, no: int) -> Delivery:
        """Replaces the message of that number."""
        run = self.tables.run(message.run)
        if run is None:
            return Missing()
        if run.status.is_terminal:
            return Ended(run.status)
        letters = self.tables.inbox[run.no]
        there = [letter for letter in letters.values() if letter.no == no]
        if not 0 < no <= run.inbox_last or (no <= run.inbox_read and any(letter.consumed_ordinal for letter in there)):
            return Accepted(is_repeat=True)
        for letter in there:
            del letters[letter.id]
        consumed = run.next_ordinal - 1 if no <= run.inbox_read else 0
        letters[message.id] = Letter(no, message.id, message.kind, message.body, message.checksum, consumed)
        self._change(run.no, available_at=min(run.available_at or self.now, self.now))
        self.keep_blobs(message.blobs)
        self.refer(run.no, ("message", no), message.references)
        self.hints[run.id] = None
        return Accepted()

    def publish(self, publication: Publication) -> list[str]:
        """Sends to every open wait. A run with two waits on the topic gets two messages."""
        found = self.tables.watching(publication.topic)
        for watch in found:
            self.send(
                Message(
                    run=self.tables.runs[watch.no].id,
                    id=f"{publication.id}/{watch.key}",
                    kind="topic",
                    body=with_key(publication.body, watch.key),
                    blobs=publication.blobs,
                    references=publication.references,
                )
            )
        return list(dict.fromkeys(self.tables.runs[watch.no].id for watch in found))

    # -- turns ---------------------------------------------------------------------------------------------------------

    def commit(self, commit: Commit) -> Verdict:
        """Commits one turn as a whole, or returns a verdict that says why nothing was written."""
        run, row = self.tables.runs.get(commit.no), commit.row
        if run is None:
            return Fenced(0, 0)
        stored = self.stored(run.no, row.ordinal)
        if stored is not None and (stored.epoch, stored.checksum) == (row.epoch, row.checksum):
            return Committed(stored.seq, run.inbox_last)
        if (run.epoch, run.next_ordinal) != (row.epoch, row.ordinal) or run.ended_at is not None:
            return Fenced(run.epoch, run.next_ordinal)
        before = self.stored(run.no, row.ordinal - 1)
        if (b"" if before is None else before.checksum) != commit.after:
            return Fenced(run.epoch, run.next_ordinal)
        after = moved(run, commit, self.now)
        if after is None:
            return Unread(run.inbox_last)
        self.keep_blobs(commit.blobs.items())
        seq = self._append(run.no, row, commit.references)
        self.tables.runs[run.no] = after
        gate_places.give_place_back(self.tables, run.no, self.now)
        if commit.is_consuming:
            self._consume(commit)
        for child in commit.children:
            self._start_child(child, row.ordinal)
        for message in commit.messages:
            delivery = self.send(message)
            if message.reply and not isinstance(delivery, Accepted):
                self._tell_sender(run.no, message, delivery)
        for publication in commit.publications:
            self.publish(publication)
        self._show(commit)
        if commit.parts or commit.spans:
            self.hints[STREAMS] = None
            add_parts(self.tables, commit)
        self.settle(run, commit.answers)
        if commit.is_terminal:
            self._end(run, row)
        after = self.tables.runs[run.no]  # what the turn brought may have woken it
        if commit.is_terminal or (commit.park is not None and after.available_at is not None):
            self.hints[run.id] = None
        return Committed(seq, after.inbox_last)

    def stored(self, no: int, ordinal: int) -> Row | None:
        """The row of that ordinal. Ordinals have no gaps after the first row that is left."""
        rows = self.tables.rows.get(no, [])
        index = ordinal - rows[0].ordinal if rows else -1
        return rows[index] if 0 <= index < len(rows) else None

    def _append(self, no: int, row: Row, references: Iterable[str]) -> int:
        self.tables.seq += 1
        self.refer(no, ("row", row.ordinal), references)
        self.tables.rows[no].append(msgspec.structs.replace(row, seq=self.tables.seq))
        return self.tables.seq

    def _consume(self, commit: Commit) -> None:
        for letter in self.tables.inbox[commit.no].values():
            if letter.no <= commit.inbox_seen and not letter.consumed_ordinal:
                letter.consumed_ordinal = commit.row.ordinal

    def _show(self, commit: Commit) -> None:
        tables = self.tables
        if commit.attributes:
            attributes = dict(tables.runs[commit.no].attributes)
            apply_attributes(attributes, commit.attributes)
            self._change(commit.no, attributes=attributes)
        for exposure in commit.exposed:
            name, value, blob = exposure.name, exposure.value, exposure.blob
            stored = StoredValue(name, value, blob, shown_checksum(commit.row.run, name, value, blob))
            tables.exposed.setdefault(commit.no, {})[name] = stored
            self.refer(commit.no, ("value", name), exposure.references)
        over = {*commit.unwatch, *(key for _, key in commit.watch)}
        tables.watches = [watch for watch in tables.watches if watch.no != commit.no or watch.key not in over]
        since = instant(commit.row.at)
        tables.watches += [Watch(commit.no, key, topic, since) for topic, key in commit.watch]

    def _end(self, run: RunRow, row: Row) -> None:
        self.tables.watches = [watch for watch in self.tables.watches if watch.no != run.no]
        for adoption in self.tables.adoptions.pop(run.no, []):
            self._tell(adoption, told_at_end(row, adoption.key))

    # -- children ------------------------------------------------------------------------------------------------------

    def _start_child(self, new: NewRun, ordinal: int) -> None:
        run = self.tables.run(new.row.run)
        if run is None:
            self.insert(new)
            return
        if new.watcher is None:
            return
        watcher, key = new.watcher
        # The ordinal makes it another message when a restarted run starts the same child again.
        adoption = Adoption(watcher, key, f"ended:{key}:{ordinal}")
        if run.workflow != new.started.workflow:
            self._tell(adoption, id_in_use(run.id, run.workflow, new.started.workflow, key))
        elif run.status.is_terminal:
            self._tell(adoption, ended_by(self.tables.rows[run.no][-1], key))
        elif (run.parent, run.parent_key) != new.watcher:  # a run tells its own parent without being asked
            self.tables.adoptions.setdefault(run.no, []).append(adoption)

    def _tell(self, adoption: Adoption, ended: e.ChildEnded | e.PredecessorEnded) -> None:
        self.send(message_of(adoption.run, adoption.message, "child", ended))

    # -- leases --------------------------------------------------------------------------------------------------------

    def hold(self, run: RunRow, instance: str, worker: str, *, is_claim: bool) -> RunRow:
        """Gives the lease, with the next epoch. Only a claim is counted, and only a claim clears the note of why the
        run waited."""
        held = self._change(run.no, instance=instance, worker=worker, epoch=run.epoch + 1)
        gate_places.begin(self.tables, run.no)
        return self._change(run.no, claims=held.claims + 1, bounces=0, note="") if is_claim else held

    def reinstate(self, run: RunRow, instance: str) -> None:
        """Restores the lease as it was before the run was taken for free."""
        self._change(run.no, instance=instance)
        self.take_back(instance, [run])

    def bounce(self, run: RunRow, until: datetime, note: str) -> None:
        """Makes the run wait before the next claim."""
        self._change(run.no, available_at=until, bounces=run.bounces + 1, note=note)

    def recall(self, definitions: Iterable[tuple[str, str]]) -> None:
        """Makes runs available that were put off because one of these definitions was missing."""
        held = set(definitions)
        for run in list(self.tables.runs.values()):
            is_open = run.status in {Status.PENDING, Status.RUNNING}
            if run.bounces and is_open and not run.instance and (run.workflow, run.version) in held:
                gate_places.line_up(
                    self.tables, self._change(run.no, available_at=self.now, bounces=0, note=""), self.now
                )
                self.hints[run.id] = None

    def release(self, run: RunRow, until: datetime | None, inbox_seen: int, note: str | None = None) -> None:
        """Releases the run without a turn. A worker that does this was not killed by the run, so the claim is not
        counted. With a note the run is put off; None keeps the earlier note."""
        said = {} if note is None else {"note": note, "bounces": run.bounces + bool(note)}
        self._change(run.no, claims=max(0, run.claims - 1), **said)
        self._suspect(run.no, NONE)
        available_at = self.now if run.inbox_last > inbox_seen else until
        self._change(run.no, instance="", available_at=available_at)
        gate_places.give_place_back(self.tables, run.no, self.now)
        if available_at is not None:
            self.hints[run.id] = None

    def _change(self, no: int, **columns: object) -> RunRow:
        run = msgspec.structs.replace(self.tables.runs[no], **columns)
        self.tables.runs[no] = run
        return run
