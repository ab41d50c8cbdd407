"""A plugin of pytest that tells another process about each test as it ends: one line of JSON on a pipe.

`{"count": 312}` says how many tests there are, `{"test": name, "problem": text}` that one ended; `problem` is empty if
it passed. The variable `HOLDFAST_LISTENER` holds the number of the pipe.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import IO

import pytest

VARIABLE = "HOLDFAST_LISTENER"


class Listener:
    """Lives in the process that controls the run, which sees the reports of all workers."""

    def __init__(self, pipe: IO[str]) -> None:
        self._pipe = pipe
        self._is_counted = False

    def _tell(self, **told: str | int) -> None:
        self._pipe.write(json.dumps(told) + "\n")
        self._pipe.flush()

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: object, ids: Sequence[str]) -> None:
        """Every worker collects the same tests."""
        if not self._is_counted:
            self._tell(count=len(ids))
        self._is_counted = True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._tell(test=report.nodeid, problem=f"{report.longreprtext}\n{report.capstdout}{report.capstderr}")
        elif report.when == "teardown":
            self._tell(test=report.nodeid, problem="")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Listener(os.fdopen(int(os.environ[VARIABLE]), "w", encoding="utf-8")))
