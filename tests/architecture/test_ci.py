"""What CI runs, what the README tells a newcomer to run, and what was tested are one command."""

from __future__ import annotations

import os
import re
import subprocess

from tests.architecture.source import ROOT


def readme_command() -> str:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"^<!-- newcomer: test -->\n+```[^\n]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert block, "README.md has no block after <!-- newcomer: test -->"
    return block[1].strip()


def test_the_readme_gives_one_command() -> None:
    """Contract: from a clone to a tested tree in one line."""
    assert readme_command() == "python3 dev.py test"


def test_ci_runs_what_the_readme_says() -> None:
    """Contract: CI cannot pass while the README's command fails."""
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK), ".ci/run is not executable"
    answer = subprocess.run([script, "--show"], cwd="/", capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == readme_command()


def test_pins_name_no_registry() -> None:
    """Contract: constraints.txt pins by version and hash, wherever the packages are fetched from."""
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert "://" not in text
    assert "--index-url" not in text
    pins = re.findall(r"^[a-z0-9][^\n]*==[^\n]*", text, re.MULTILINE)
    assert pins
    assert all(pin.endswith("\\") for pin in pins), "a pin without hashes"
