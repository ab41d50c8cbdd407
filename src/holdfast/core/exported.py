"""A journal as a file: every row of a tree, and the blobs they name. Pure.

One JSON object with one row per line, so that two files can be compared with diff. Nothing in it is trusted when it is
read: its digest covers everything but white space, each row is chained to the one before, and each blob is named by its
hash. Seqs come from the store that wrote them: they keep the order and mean nothing elsewhere.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from holdfast.core.references import ReferringBytes, referred_by
from holdfast.core.turn import Row, decode_rows
from holdfast.errors import CorruptJournal, InvalidInput

FORMAT = 3
"""Version of the file that this code reads; newer ones are refused.

1 · 2: every row says its root, and `references` says what the blobs refer to. · 3: `streams` has parts of streams; a
file without any is written as 2.
"""


class ExportedRow(msgspec.Struct, frozen=True):
    """A row, with `body` as it is stored."""

    run: str
    ordinal: int
    epoch: int
    at: int
    format: int
    checksum: str
    seq: int
    body: msgspec.Raw
    root: str = ""


_FIRST_FIELDS = tuple(name for name in ExportedRow.__struct_fields__ if name != "root")
"""What a row of format 1 has."""


class ExportedParts(msgspec.Struct, frozen=True):
    """A row of a stream of that run: parts from offset `first` on, an array of JSON."""

    run: str
    name: str
    first: int
    step: str
    attempt: int
    epoch: int
    parts: msgspec.Raw


class Exported(msgspec.Struct, frozen=True):
    """The file."""

    holdfast_journal: int
    root: str
    rows: list[ExportedRow]
    blobs: dict[str, str]
    references: dict[str, list[str]] = {}
    streams: list[ExportedParts] = []
    digest: str = ""


def encode_export(
    root: str, rows: Sequence[Row], blobs: Mapping[str, bytes], streams: Sequence[ExportedParts] = ()
) -> bytes:
    """The file of a tree: rows in their total order, blobs, which say what they refer to, and parts of streams."""
    shown = [
        ExportedRow(x.run, x.ordinal, x.epoch, x.at, x.format, x.checksum.hex(), x.seq, msgspec.Raw(x.body), root)
        for x in rows
    ]
    packed = {name: base64.b64encode(data).decode() for name, data in sorted(blobs.items())}
    references = {name: sorted(referred_by(data)) for name, data in sorted(blobs.items()) if referred_by(data)}
    file = Exported(3 if streams else 2, root, shown, packed, references, list(streams))
    head = b'{"holdfast_journal":%d,"root":%s,\n"digest":"%s",\n' % (
        file.holdfast_journal,
        msgspec.json.encode(root),
        _digest(file).encode(),
    )
    lines = b",\n".join(msgspec.json.encode(row) for row in shown)
    if streams:
        lines += b'\n],\n"streams":[\n' + b",\n".join(msgspec.json.encode(row) for row in streams)
    tail = b'\n],\n"references":%b,\n"blobs":%b}\n' % (msgspec.json.encode(references), msgspec.json.encode(packed))
    return head + b'"rows":[\n' + lines + tail


def decode_export(data: bytes, source: str) -> tuple[str, list[Row], dict[str, bytes]]:
    """The root, rows and blobs of a file. `source` names it in errors. Every chain is checked."""
    try:
        file = msgspec.json.decode(data, type=Exported)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"{source} is not an exported journal: {error}. Use `holdfast export RUN`.") from error
    if file.holdfast_journal > FORMAT:
        raise InvalidInput(
            f"{source} has format {file.holdfast_journal}, this code reads up to {FORMAT}: a newer Holdfast wrote it"
        )
    if file.holdfast_journal < 1:
        raise InvalidInput(f"{source} has format {file.holdfast_journal}, which no Holdfast ever wrote")
    if file.digest != _digest(file):
        raise CorruptJournal(f"{source} was changed or damaged: its digest does not match. Export it again.")
    try:
        rows = [
            Row(x.run, x.ordinal, x.epoch, x.at, x.format, bytes.fromhex(x.checksum), bytes(x.body), x.seq)
            for x in file.rows
        ]
        blobs = {name: base64.b64decode(text, validate=True) for name, text in file.blobs.items()}
        blobs |= {name: ReferringBytes(blobs[name], held) for name, held in file.references.items() if name in blobs}
    except (ValueError, binascii.Error) as error:
        raise CorruptJournal(f"{source} was changed or damaged: {error}") from error
    for name, content in blobs.items():
        if sha256(content).hexdigest() != name:
            raise CorruptJournal(f"{source} was changed or damaged: blob {name} does not hold the bytes of that name")
    for journal in by_run(rows).values():
        decode_rows(journal)
    return file.root, rows, blobs


def parts_of_export(data: bytes) -> list[ExportedParts]:
    """The parts of streams in a file that `decode_export` has accepted, in the order in which they were exported."""
    return msgspec.json.decode(data, type=Exported).streams


def by_run(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each run, in order."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.run, []).append(row)
    return found


def _digest(file: Exported) -> str:
    """The digest of the whole file, by its format."""
    if file.holdfast_journal < 2:
        rows = [{name: getattr(row, name) for name in _FIRST_FIELDS} for row in file.rows]
        return sha256(msgspec.json.encode((file.holdfast_journal, file.root, rows, file.blobs))).hexdigest()
    whole: tuple[Any, ...] = (file.holdfast_journal, file.root, file.rows, file.blobs, file.references)
    if file.holdfast_journal > 2:
        whole += (file.streams,)
    return sha256(msgspec.json.encode(whole)).hexdigest()
