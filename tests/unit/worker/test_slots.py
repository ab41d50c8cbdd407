"""Who may begin here: both doors ask the same."""

from __future__ import annotations

from holdfast.worker.slots import Admission


def test_a_pass_takes_what_fits() -> None:
    """Promise: no more than the free slots, and no more than a batch."""
    admission = Admission(slots=10, batch=4)
    assert [admission.limit(busy) for busy in (0, 6, 8, 10, 12)] == [4, 4, 2, 0, -2]
    assert admission.waits_for_slots
    admission.limit(9)
    assert not admission.waits_for_slots


def test_a_start_overtakes_nobody_in_line() -> None:
    """Promise: while a pass of the claim loop took all it could, runs may wait in line, and a run that is started here
    waits behind them; once a pass leaves slots free it begins at once."""
    admission = Admission(slots=10, batch=4)
    assert admission.begins(busy=9)
    assert not admission.begins(busy=10)
    admission.passed(taken=4, limit=4)
    assert not admission.begins(busy=4)
    admission.passed(taken=3, limit=4)
    assert admission.begins(busy=7)
