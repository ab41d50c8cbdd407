"""The page's pure functions, called from tests without a browser."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from tests.page.bundle import NODE, UI, install_modules


def evaluate(*calls: list[Any]) -> list[Any]:
    """The answers to `[name, *arguments]`, in one process."""
    install_modules()
    done = subprocess.run(
        [NODE, "pure.mjs"], cwd=UI, input=json.dumps(calls), capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr
    found: list[Any] = json.loads(done.stdout)
    return found
