"""Programs that load the code once and fork for each task they are given on standard input."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

BROKEN = 70
"""The exit code of a child whose task raised."""


def serve(child: Callable[[Any], int]) -> None:
    """Forks for each line, a JSON object, and answers with the exit code of the child, which `child` returns."""
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            code = BROKEN
            try:
                code = child(json.loads(line))
            finally:
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()
