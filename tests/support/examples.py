"""How many examples a test tries: few but new ones at every commit, many in the lab.

`dev.py test` gives hypothesis the seed of the commit: one commit always tries the same examples, the next one new ones.
`dev.py lab --only examples` tries as many as each test says. What the lab finds becomes an `@example` of the test.

hypothesis is imported when it is needed: processes that tests start import this module too.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hypothesis import settings

VARIABLE = "HYPOTHESIS_PROFILE"
LAB = "lab"
FEW = 20
MANY = 2000


def profile() -> str:
    """The profile in force: `ci` unless the environment names another one."""
    return os.environ.get(VARIABLE, "ci")


def load() -> None:
    """Makes the profile that of every property test that does not say more."""
    from hypothesis import HealthCheck, settings

    for name, number in (("ci", FEW), (LAB, MANY)):
        settings.register_profile(
            name,
            max_examples=number,
            database=None,
            deadline=None,
            print_blob=True,
            suppress_health_check=[HealthCheck.too_slow],  # it measures the machine
        )
    settings.load_profile(profile())


def count(many: int, few: int = FEW) -> int:
    """`many` in the lab, `few` at every commit. Tests that use it outside hypothesis carry the mark `examples`."""
    return many if profile() == LAB else few


def examples(many: int, few: int = FEW) -> settings:
    """The same for a property test."""
    from hypothesis import settings

    return settings(max_examples=count(many, few), deadline=None)
