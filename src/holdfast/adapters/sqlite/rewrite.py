"""Puts other contents in the place of what is kept of an ended run, as an operation of the writer."""

from __future__ import annotations

import msgspec

from holdfast.adapters.sqlite import upkeep_statements as sql
from holdfast.adapters.sqlite.blobs import keep_blobs, refer
from holdfast.adapters.sqlite.connections import pragma
from holdfast.adapters.sqlite.transaction import Transaction
from holdfast.ports.rewritten import Rewritten


class Rewrite(msgspec.Struct, frozen=True):
    """`Upkeep.rewrite`. What is overwritten is filled with zeros, so no free page has it."""

    new: Rewritten

    def __call__(self, transaction: Transaction) -> bool:
        """Rewrites. Returns whether it was accepted."""
        new = self.new
        stored = transaction.row(sql.IS_AS_READ, (new.no, new.after, new.inbox_last))
        ordinals = [ordinal for (ordinal,) in transaction.rows(sql.ORDINALS, (new.no,))]
        if stored is None or ordinals != [row.ordinal for row in new.rows]:
            return False
        before = pragma(transaction.connection, "secure_delete")
        pragma(transaction.connection, "secure_delete", 1)
        try:
            self._write(transaction)
        finally:
            pragma(transaction.connection, "secure_delete", int(before))
        return True

    def _write(self, transaction: Transaction) -> None:
        new, no = self.new, self.new.no
        keep_blobs(transaction, new.blobs.items())
        keep_blobs(transaction, new.segments.items(), "segment")
        for row in new.rows:
            transaction.run(sql.REWRITE_ROW, (row.format, row.checksum, row.body, no, row.ordinal))
        transaction.run(sql.FORGET_INPUT_HASH, (no,))
        for name, text in new.attributes.items():
            transaction.run(sql.REWRITE_ATTRIBUTE, (text, no, name))
        for message in new.messages:
            transaction.run(sql.REWRITE_MESSAGE, (message.body, message.checksum, no, message.no))
        for value in new.shown:
            refers = bool(new.references.get(("value", 0, value.name)))
            transaction.run(sql.REWRITE_VALUE, (value.value, value.blob, value.checksum, refers, no, value.name))
        for answer in new.answers:
            values = (answer.asked, answer.value, answer.blob, answer.checksum, no, answer.message)
            transaction.run(sql.REWRITE_ANSWER, values)
        for name, part in new.parts:
            transaction.run(sql.REWRITE_PARTS, (part.packed, part.checksum, no, name, part.first))
        transaction.run(sql.DROP_SNAPSHOT, (no,))
        transaction.run(sql.DROP_UNIQUES, (no,))
        transaction.run(sql.AGE_OF_RUN, (transaction.now, no))
        transaction.run(sql.FORGET_RUN, (no,))
        for source, names in new.references.items():
            refer(transaction, no, source, names)
