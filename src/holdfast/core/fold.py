"""The fold of a journal, and its stored form in snapshots and compacted rows."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from holdfast.core import events as e
from holdfast.core.run import Run
from holdfast.core.turn import UNREADABLE, Turn
from holdfast.errors import CorruptJournal

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Run] = msgspec.json.Decoder(Run)


def fold(run_id: str, turns: Iterable[Turn]) -> Run:
    """The run that a journal describes; the first turn may replace those that were compacted."""
    run = Run(run_id)
    for turn in turns:
        if run.ordinal == 0 and turn.events and isinstance(stand_in := turn.events[0], e.Compacted):
            run = unfolded(run_id, stand_in.fold)
        else:
            run.apply(turn)
    return run


def folded(run: Run) -> msgspec.Raw:
    """The stored form of the fold in snapshots and compacted rows."""
    return msgspec.Raw(_encoder.encode(msgspec.structs.replace(run, retries={}, abandoned=0)))


def unfolded(run_id: str, data: msgspec.Raw) -> Run:
    """The inverse of `folded`. It must be the fold of that run, and was bound to its last row when stored."""
    try:
        run = _decoder.decode(data)
    except UNREADABLE as error:
        raise CorruptJournal(f"run {run_id}: a stored fold of it does not decode: {error}") from error
    if run.id != run_id:
        raise CorruptJournal(f"run {run_id}: a stored fold of it is of run {run.id}")
    steps = run.steps.values()
    run.retries = {x.key: x.retry_at for x in steps if x.retry_at is not None and not x.is_abandoned}
    run.abandoned = sum(x.is_abandoned for x in steps)
    return run
