"""What a worker's recovery found: counts, and the latest runs by name, so that an operator can check them. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

Kind: TypeAlias = Literal["own", "taken over", "contended", "missing definition", "undecodable", "failed"]
"""`own`: a run of this worker's earlier instance, taken back. `taken over`: one of a worker that was cut off.
`contended`: another worker had it. The others: what kept a run from continuing."""

REMEMBERED = 10


class Met(msgspec.Struct, frozen=True):
    """One run that recovery could not simply resume."""

    kind: Kind
    run: str
    detail: str
    at: datetime


class Recovery(msgspec.Struct, frozen=True, omit_defaults=True):
    """Counts since the worker started, the last few runs that need attention, and what is left behind now."""

    counts: dict[Kind, int] = {}
    recent: tuple[Met, ...] = ()
    taken: tuple[Met, ...] = ()
    """The last few runs of workers that were cut off; `detail` is the worker."""
    left: tuple[tuple[str, str], ...] = ()
    """Threads of steps whose result is no longer needed, by run and key: each occupies a thread until it returns."""

    def count(self, kind: Kind) -> int:
        """How often this was found."""
        return self.counts.get(kind, 0)

    def with_one(self, kind: Kind, run: str, detail: str, at: datetime) -> Recovery:
        """This recovery with one more run. Runs that simply continued need no attention; runs of other workers are
        forgotten before those that do."""
        counts: dict[Kind, int] = {**self.counts, kind: self.count(kind) + 1}
        if kind == "own":
            return msgspec.structs.replace(self, counts=counts)
        if kind == "taken over":
            taken = (*self.taken, Met(kind, run, detail, at))[-REMEMBERED:]
            return msgspec.structs.replace(self, counts=counts, taken=taken)
        others = [met for met in self.recent if (met.kind, met.run) != (kind, run)]
        if len(others) == REMEMBERED:
            others.remove(next((met for met in others if met.kind == "contended"), others[0]))
        return msgspec.structs.replace(self, counts=counts, recent=(*others, Met(kind, run, detail, at)))


def encode_recovery(recovery: Recovery) -> str:
    """The stored form in a worker's row; empty if there is nothing to report."""
    return msgspec.json.encode(recovery).decode() if recovery.counts or recovery.left else ""


def check_recovery(text: str | bytes) -> None:
    """Raises msgspec's error, or a `UnicodeDecodeError`, if `encode_recovery` did not write it."""
    if text:
        msgspec.json.decode(text, type=Recovery)


def decode_recovery(text: str) -> Recovery:
    """The inverse; a text of a newer worker that cannot be read counts as empty."""
    try:
        return msgspec.json.decode(text, type=Recovery) if text else Recovery()
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return Recovery()
