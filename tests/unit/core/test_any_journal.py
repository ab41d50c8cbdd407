"""What holds for the fold of any journal, with random ones."""

from __future__ import annotations

from hypothesis import given

from holdfast.core.fold import fold
from holdfast.core.status import Status
from holdfast.core.turn import decode_rows
from tests.support.examples import examples
from tests.unit.core.journals import (
    Journal,
)
from tests.unit.core.random_journals import journals


@examples(1000)
@given(journals())
def test_the_fold_is_the_same_however_it_is_reached(journal: Journal) -> None:
    """Contract: deterministic, the same from stored rows, and a fold of a prefix goes on to the fold of the whole."""
    turns = journal.turns
    whole = fold("r", turns)
    assert fold("r", turns) == whole
    again = fold("r", decode_rows(journal.rows))
    assert (again.status, again.checksum, again.steps.keys(), again.waits, again.attempts, again.undoable) == (
        whole.status,
        whole.checksum,
        whole.steps.keys(),
        whole.waits,
        whole.attempts,
        whole.undoable,
    )
    for length in range(len(turns) + 1):
        run = fold("r", turns[:length])
        for turn in turns[length:]:
            run.apply(turn)
        assert run == whole


@examples(1000)
@given(journals())
def test_what_holds_for_every_fold(journal: Journal) -> None:
    run = journal.run
    assert run.ordinal == len(journal.turns)
    assert run.status.is_terminal == (run.end is not None) == (run.ended_at is not None)
    assert (run.status is Status.PAUSED) <= (run.paused is not None)
    assert all(s.attempt >= 1 and s.failures >= 0 and s.restarts >= 0 for s in run.steps.values())
    assert all(key == s.key for key, s in run.steps.items())
    assert run.created_at is not None
    assert run.updated_at is not None
    assert run.created_at <= run.updated_at
