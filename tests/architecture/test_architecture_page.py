"""ARCHITECTURE.md names files that are there."""

from __future__ import annotations

import re

from tests.architecture.source import PACKAGE, ROOT

PLACE = re.compile(r"`([\w./]+(?:\.py|/))`")


def test_the_files_that_architecture_names_exist() -> None:
    """Contract: each module and folder on the page exists, below the package or the project."""
    named = set(PLACE.findall((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")))
    assert len(named) > 30
    assert {name for name in named if not (PACKAGE / name).exists() and not (ROOT / name).exists()} == set()
