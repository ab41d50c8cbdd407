"""Three-method stores pass the suite that is shipped to their authors."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.testing.conformance import MachineLogSuite
from holdfast.testing.machines import MemoryLog, RecordingObserver
from tests.unit.authoring.machine.stage import A, Chain, play


class TestMemoryLog(MachineLogSuite):
    """The log for tests: opened again it is the same object, as if its process had lived on."""

    def open(self, folder: Path) -> MemoryLog:
        return self.__dict__.setdefault("kept", MemoryLog())  # type: ignore[no-any-return]


@pytest.mark.spec("cano.T22")
def test_the_kit_for_tests_remembers_a_run() -> None:
    """Promise: a log in memory and an observer that knows the path are shipped."""
    watcher, log = RecordingObserver(), MemoryLog()
    play(Chain(observers=[watcher]).machine.run(A(), store=log, id="run", keep_log=True))
    watcher.assert_path("A", "B", "C", "D", "End")
    assert len(log.runs["run"]) == 8
    with pytest.raises(AssertionError, match="entered"):
        watcher.assert_path("A")
