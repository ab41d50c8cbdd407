"""One seed for all chance of a run: the commit's, so that one commit always tries the same, and the next one others."""

from __future__ import annotations

import os
import random
import subprocess

from tests.command.stages import ROOT

SEED = "HOLDFAST_TEST_SEED"


def of_commit() -> int:
    """The first 32 bits of the commit's hash; 0 outside a repository."""
    answer = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return int(answer.stdout.strip()[:8] or "0", 16)


def chosen() -> int:
    """`HOLDFAST_TEST_SEED` if it is set (`random`: a new one each time), else the commit's."""
    word = os.environ.get(SEED, "")
    if word == "random":
        return random.SystemRandom().randrange(2**32)
    if word and not (word.isdigit() and int(word) < 2**32):
        raise ValueError(f"{SEED}={word!r}: give a whole number below 2**32, or `random` for a new one")
    return int(word) if word else of_commit()
