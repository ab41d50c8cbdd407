"""Writing into inboxes: a message is stored and its run woken in the same transaction, or not at all."""

from __future__ import annotations

from holdfast.adapters.memory import answers, blobs, gate
from holdfast.adapters.memory.tables import Letter, Tables
from holdfast.adapters.memory.transaction import Transaction
from holdfast.core.checksums import message_checksum
from holdfast.core.messages import undelivered_id, with_key, with_status
from holdfast.ports.inbox import Accepted, Delivery, Ended, Message, Missing, Publication, kept_message, why_lost
from holdfast.ports.runs import RunRow


def send(transaction: Transaction, message: Message) -> Delivery:
    """Puts a message into the inbox and wakes the run."""
    run = transaction.tables.run(message.run)
    if run is None:
        return Missing()
    letters = transaction.tables.inbox[run.no]
    is_asked = bool(message.asks) and message.id in transaction.tables.answers.get(
        run.no, {}
    )  # its message was dropped
    if message.id in letters or is_asked:
        return Accepted(is_repeat=True)
    if run.status.is_terminal:
        return Ended(run.status)
    put(transaction, run, message)
    woken = transaction.change(run.no, available_at=min(run.available_at or transaction.now, transaction.now))
    gate.wake(transaction.tables, woken, message.kind, transaction.now)
    if message.asks:
        answers.ask(transaction, run, message.id, message.asks)
    transaction.hints[run.id] = None
    return Accepted()


def put(transaction: Transaction, run: RunRow, message: Message) -> None:
    """Into the inbox, and nothing else."""
    transaction.change(run.no, inbox_last=(no := run.inbox_last + 1))
    transaction.tables.inbox[run.no][message.id] = Letter(no, message.id, message.kind, message.body, message.checksum)
    blobs.keep_blobs(transaction, message.blobs)
    blobs.refer(transaction, run.no, ("message", no), message.references)


def sent(tables: Tables, no: int, id: str) -> Message | None:
    """What that run was sent under that id."""
    letter = tables.inbox.get(no, {}).get(id)
    if letter is None:
        return None
    return kept_message(tables.runs[no].id, id, letter.kind, letter.body, letter.checksum)


def send_with_turn(transaction: Transaction, no: int, message: Message) -> None:
    """Sends what a turn of run `no` brings. If it does not arrive, its sender is told, if it asked."""
    delivery = send(transaction, message)
    if message.reply and delivery != Accepted():
        tables = transaction.tables
        why = why_lost(message, delivery, lambda: sent(tables, tables.numbers[message.run], message.id))
        if why:
            _tell_sender(transaction, no, message, why)


def _tell_sender(transaction: Transaction, no: int, message: Message, why: str) -> None:
    """Tells the sender the outcome of a message from its own turn, whose row is written. A run that ended with it
    keeps the outcome and is not woken."""
    run = transaction.tables.runs[no]
    name, last = undelivered_id(message.reply), run.inbox_last + 1
    body = with_status(message.reply, why)
    checksum = message_checksum(run.id, name, "undelivered", body)
    transaction.tables.inbox[no][name] = Letter(last, name, "undelivered", body, checksum)
    transaction.change(no, inbox_last=last)
    if not run.status.is_terminal:
        transaction.change(no, available_at=min(run.available_at or transaction.now, transaction.now))
        transaction.hints[run.id] = None


def replace(transaction: Transaction, message: Message, no: int) -> Delivery:
    """Replaces the message of that number."""
    run = transaction.tables.run(message.run)
    if run is None:
        return Missing()
    if run.status.is_terminal:
        return Ended(run.status)
    letters = transaction.tables.inbox[run.no]
    there = [letter for letter in letters.values() if letter.no == no]
    if not 0 < no <= run.inbox_last or (no <= run.inbox_read and any(letter.consumed_ordinal for letter in there)):
        return Accepted(is_repeat=True)
    for letter in there:
        del letters[letter.id]
    consumed = run.next_ordinal - 1 if no <= run.inbox_read else 0
    letters[message.id] = Letter(no, message.id, message.kind, message.body, message.checksum, consumed)
    transaction.change(run.no, available_at=min(run.available_at or transaction.now, transaction.now))
    blobs.keep_blobs(transaction, message.blobs)
    blobs.refer(transaction, run.no, ("message", no), message.references)
    transaction.hints[run.id] = None
    return Accepted()


def publish(transaction: Transaction, publication: Publication) -> list[str]:
    """Sends to every open wait. A run with two waits on the topic gets two messages."""
    found = transaction.tables.watching(publication.topic)
    for watch in found:
        send(
            transaction,
            Message(
                run=transaction.tables.runs[watch.no].id,
                id=f"{publication.id}/{watch.key}",
                kind="topic",
                body=with_key(publication.body, watch.key),
                blobs=publication.blobs,
                references=publication.references,
            ),
        )
    return list(dict.fromkeys(transaction.tables.runs[watch.no].id for watch in found))
