"""The tutorial, done: every file written, every command run, every output compared, in the order of the page.

`text` blocks are what the commands before them print to standard output; `…` stands for anything. Commands run in bash
that stops at the first failure, with the environment a reader has after installing Holdfast.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_blocks import ROOT, Block, blocks_of

PAGE = ROOT / "docs" / "tutorial" / "README.md"
SECONDS = 100


def environment() -> dict[str, str]:
    """A reader's: what is installed is on PATH. Output comes as it is written, as on a terminal."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("HOLDFAST_", "PYTEST_"))}
    path = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", os.defpath)])
    return {**kept, "PATH": path, "PYTHONUNBUFFERED": "1"}


def run(block: Block, folder: Path) -> str:
    """What the commands print."""
    done = subprocess.run(
        ["bash", "-em", "-c", block.text],
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode != 0:
        pytest.fail(f"{block.place}: ended with {done.returncode}\n{done.stdout}{done.stderr}", pytrace=False)
    return done.stdout


def matches(shown: str, printed: str) -> bool:
    pattern = "".join(".*" if part == "…" else re.escape(part) for part in re.split("(…)", shown.strip()))
    return re.fullmatch(pattern, printed.strip()) is not None


@pytest.mark.slow
@pytest.mark.timeout(400)  # the commands of a whole page, one after the other
def test_the_tutorial_works_as_written(tmp_path: Path) -> None:
    """Contract: a reader who does what the page says sees what the page says."""
    printed, done = "", 0
    for block in blocks_of(PAGE):
        kind = block.info[0]
        if kind == "python":
            assert block.name, f"{block.place}: a file of the tutorial says its name"
            (tmp_path / block.name).write_text(block.text, encoding="utf-8")
        elif kind == "sh":
            printed, done = run(block, tmp_path), done + 1
        else:
            assert kind == "text", block.place
            assert matches(block.text, printed), f"{block.place}: the page says\n{block.text}\nand it was\n{printed}"
    assert done >= 6


def test_an_output_that_differs_is_seen() -> None:
    assert matches("a\n2 passed in …\n", "a\n2 passed in 0.1s\n")
    assert not matches("a\n2 passed in …\n", "b\n2 passed in 0.1s\n")
    assert not matches("a\n", "a\nmore\n")
