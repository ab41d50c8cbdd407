"""The pytest plugin, loaded by installing Holdfast: the fixture `sim`.

pytest loads it in every project of an environment that has Holdfast, so it imports nothing until a test uses it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from holdfast.testing import Sim


@pytest.fixture
def sim() -> Iterator[Sim]:
    """A simulation for one test: memory store, worker, and a clock that the test moves."""
    from holdfast.testing import Sim

    with Sim() as made:
        yield made
