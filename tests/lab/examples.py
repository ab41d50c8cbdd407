"""The property tests of the suite as a level: as many examples as each test says, new ones each time.

At every commit they try few (`tests/support/examples.py`). What fails here becomes an `@example` of its test.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.lab.levels import Effort, Report, level
from tests.support.examples import LAB, VARIABLE

ROOT = Path(__file__).resolve().parents[2]
MARKS = "hypothesis or examples"


@level("examples", "the property tests of the suite, with many examples each", share=2)
def many_examples(effort: Effort) -> Report:
    """Runs them once; how long that takes does not depend on the time a campaign is given."""
    seed = effort.first % 2**32
    environment = {**os.environ, VARIABLE: LAB, "HOLDFAST_TEST_SEED": str(seed)}
    words = ["-q", "-n", str(effort.processes), "--timeout", "3600", "-m", MARKS, f"--hypothesis-seed={seed}", "tests"]
    answer = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    passed = counted(answer.stdout, "passed")
    failed = re.findall(r"^(?:FAILED|ERROR) .*", answer.stdout, re.MULTILINE)
    problems = [f"seed {seed}: {line}" for line in failed]
    if answer.returncode and not problems:
        problems = [f"pytest ended with {answer.returncode}:\n{answer.stdout[-2000:]}{answer.stderr[-2000:]}"]
    return Report(figures={"tests": passed + len(failed)}, sometimes={"a property held": passed}, problems=problems)


def counted(output: str, word: str) -> int:
    """The number before a word in pytest's last line."""
    found = re.findall(rf"(\d+) {word}\b", output)
    return int(found[-1]) if found else 0
