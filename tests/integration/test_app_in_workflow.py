"""An app that is used in a workflow, whose store is not open."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import App, Topic, workflow
from holdfast.errors import RunFailed
from holdfast.testing import Sim

news = Topic[str]("news")
GENERAL = r"an app was used in a workflow.*use start\(…\).*or use the app in a step"


@workflow
async def other() -> None: ...


async def borrow(app: App) -> None:
    async with app.connection():
        """Nothing: it is refused."""


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (lambda app: app.start(other()), r"app\.start\(other\(…\)\) in a workflow.*use start\(other\(…\)\)"),
        (lambda app: app.get("r"), GENERAL),
        (lambda app: app.publish(news, "rain"), GENERAL),
        (borrow, GENERAL),
    ],
    ids=["start", "get", "publish", "connection"],
)
def test_an_app_in_a_workflow_is_refused(
    use: Callable[[App], Awaitable[Any]], words: str, sim: Sim, tmp_path: Path
) -> None:
    """Promise: the error names the call and what to use instead, and no store is made."""
    app = App(f"sqlite:///{tmp_path / 'x.db'}", workflows=[other])

    @workflow
    async def uses() -> None:
        await use(app)

    with pytest.raises(RunFailed, match=words):
        sim.start(uses()).result()
    assert not app.is_open
    assert list(tmp_path.iterdir()) == []
