"""Writing into inboxes: a message is stored and its run woken in the same transaction, or not at all."""

from __future__ import annotations

from holdfast.adapters.sql.rows import status_of
from holdfast.adapters.sqlite import statements as sql
from holdfast.adapters.sqlite.answers import HAS_QUESTION, ask
from holdfast.adapters.sqlite.blobs import forget, keep_blobs, refer
from holdfast.adapters.sqlite.transaction import Transaction
from holdfast.core.checksums import message_checksum
from holdfast.core.messages import undelivered_id, with_key, with_status
from holdfast.ports.inbox import Accepted, Delivery, Ended, Message, Missing, Publication, kept_message, why_lost
from holdfast.ports.journal import Commit

CALLS = frozenset({"cancel", "pause"})
"""Kinds of messages that a run at the gate of its queue gets at once."""

# sent: what a run was sent under an id, as long as its body is kept. By `inbox_by_sender`.
SENT = """
SELECT runs.id, inbox.id, kind, body, checksum FROM runs JOIN inbox ON inbox.run = runs.no
WHERE runs.id = ? AND inbox.id = ?
"""
# published: what one of the watchers was sent under the id of a publication. By `inbox_by_sender`, for each watcher.
PUBLISHED = """
SELECT runs.id, inbox.id, kind, body, checksum FROM watchers JOIN runs ON runs.no = watchers.run
JOIN inbox ON inbox.run = watchers.run AND inbox.id = ?2 || '/' || watchers.key
WHERE watchers.topic = ?1 AND body <> x'' LIMIT 1
"""


def send(transaction: Transaction, message: Message) -> Delivery:
    """Stores the message under the run's next number and wakes the run. Sending the same id again changes nothing."""
    target = transaction.row(sql.TARGET, (message.run,))
    if target is None:
        return Missing()
    no, word, last = target
    if transaction.row(sql.HAS_MESSAGE, (no, message.id)) is not None:
        return Accepted(is_repeat=True)
    if message.asks and transaction.row(HAS_QUESTION, (no, message.id)) is not None:  # its message was dropped
        return Accepted(is_repeat=True)
    status = status_of(word)
    if status.is_terminal:
        return Ended(status)
    now = transaction.now
    transaction.run(sql.DELIVER, (no, last + 1, message.id, message.kind, message.body, now, message.checksum))
    transaction.run(sql.WAKE, (last + 1, now, no, message.kind in CALLS))
    keep_blobs(transaction, message.blobs)
    refer(transaction, no, ("message", last + 1, ""), message.references)
    if message.asks:
        ask(transaction, message.run, no, message.id, message.asks)
    transaction.hint(message.run)
    return Accepted()


def sent(transaction: Transaction, run: str, id: str) -> Message | None:
    """What a run was sent under an id, as this transaction sees it."""
    found = transaction.row(SENT, (run, id))
    return kept_message(*found) if found is not None else None


def send_with_turn(transaction: Transaction, commit: Commit, message: Message) -> None:
    """Sends what the turn brings. If it does not arrive, its sender is told, if it asked."""
    delivery = send(transaction, message)
    if message.reply and delivery != Accepted():
        why = why_lost(message, delivery, lambda: sent(transaction, message.run, message.id))
        if why:
            _tell_sender(transaction, commit, message, why)


def _tell_sender(transaction: Transaction, commit: Commit, message: Message, why: str) -> None:
    """Tells the sender the outcome of a message from its own turn. A run that ended with that turn keeps the outcome
    and is not woken."""
    last = transaction.row(sql.FENCE, (commit.no,))[2] + 1
    body = with_status(message.reply, why)
    name = undelivered_id(message.reply)
    checksum = message_checksum(commit.row.run, name, "undelivered", body)
    transaction.run(sql.DELIVER, (commit.no, last, name, "undelivered", body, transaction.now, checksum))
    if commit.is_terminal:
        transaction.run(sql.NUMBER, (last, commit.no))
    else:
        transaction.run(sql.WAKE, (last, transaction.now, commit.no, False))
        transaction.hint(commit.row.run)


def replace(transaction: Transaction, message: Message, place: int) -> Delivery:
    """`Inbox.replace`."""
    target = transaction.row(sql.TARGET, (message.run,))
    if target is None:
        return Missing()
    no, word, last = target
    status = status_of(word)
    if status.is_terminal:
        return Ended(status)
    read, ordinal, was_consumed = transaction.row(sql.PLACE, (no, place))
    if not 0 < place <= last or (place <= read and was_consumed):
        return Accepted(is_repeat=True)
    now = transaction.now
    transaction.run(sql.CLEAR_PLACE, (no, place))
    values = (no, place, message.id, message.kind, message.body, now, message.checksum)
    transaction.run(sql.PUT_IN_PLACE, (*values, ordinal if place <= read else None))
    keep_blobs(transaction, message.blobs)
    forget(transaction, no, ("message", place, ""))
    refer(transaction, no, ("message", place, ""), message.references)
    transaction.run(sql.WAKE, (last, now, no, False))
    transaction.hint(message.run)
    return Accepted()


def publish(transaction: Transaction, publication: Publication) -> list[str]:
    """Sends to every open wait. A run with two waits on the topic gets two messages."""
    found: dict[str, None] = {}
    for run, key, _ in transaction.rows(sql.WATCHERS, (publication.topic,)):
        found[run] = None
        send(
            transaction,
            Message(
                run=run,
                id=f"{publication.id}/{key}",
                kind="topic",
                body=with_key(publication.body, key),
                blobs=publication.blobs,
                references=publication.references,
            ),
        )
    return list(found)
