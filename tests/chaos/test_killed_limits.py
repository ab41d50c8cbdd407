"""Workers with limited steps that are killed, in real processes: no limit is exceeded, and every step is served."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.limits.season import season, wrong_with
from tests.support.postgres import new_schema, server_url


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_no_limit_is_exceeded_while_workers_are_killed(kind: str, tmp_path: Path) -> None:
    """Promise: rate and places hold over all workers, a dead one frees its places, and none of the waiters is lost."""
    url = server_url(new_schema()) if kind == "postgres" else f"sqlite:///{tmp_path}/limits.db"
    found = await season(url, tmp_path / "ledger", workers=2, jobs=120, seconds=6, every=1.0)
    assert found.kills
    assert not wrong_with(found, 120, lateness=0.5)
