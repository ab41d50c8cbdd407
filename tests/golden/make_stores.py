"""Writes golden stores that are not there yet: `PYTHONPATH=src:. python -m tests.golden.make_stores`.

A golden store is what a file of one schema version held: runs that had ended, slept, waited for a signal, failed, and
their worker. It is kept as SQL, one file for each version, and never written again: it stands for users' files.
"""

from __future__ import annotations

import asyncio
import io
import tempfile
from pathlib import Path
from typing import Any

import apsw
import apsw.shell

from holdfast import App, Call
from holdfast.adapters.sqlite.migrations import MIGRATIONS
from holdfast.authoring.script.workflows import AnyWorkflow
from tests.golden import flows

FOLDER = Path(__file__).parent / "stores"
WORKFLOWS: list[AnyWorkflow[..., Any]] = [
    flows.sequence,
    flows.sleeping,
    flows.signalled,
    flows.compensating,
    flows.ship,
]


async def fill(path: Path) -> None:
    """Some runs, each left where it stands when its worker is gone."""
    app = App(f"sqlite:///{path}", workflows=WORKFLOWS)
    async with app, app.worker(id="golden"):
        ended = await app.start(flows.sequence("a"), id="ended")
        await ended.result()
        failed = await app.start(flows.compensating(-1), id="failed")
        with_error = await asyncio.gather(failed.result(), return_exceptions=True)
        assert isinstance(with_error[0], Exception)
        standing: list[tuple[str, Call[Any], str]] = [
            ("asleep", flows.sleeping(), "sleeping"),
            ("waiting", flows.signalled(), "waiting for signal"),
        ]
        for name, call, words in standing:
            run = await app.start(call, id=name)
            while words not in (await run.view()).waiting:  # noqa: ASYNC110 until it stands there
                await asyncio.sleep(0.01)
        await app.start(flows.ship("later"), id="pending", delay="1s")


def dumped(path: Path) -> str:
    """The whole file as SQL."""
    connection = apsw.Connection(str(path))
    said = io.StringIO()
    shell: Any = apsw.shell.Shell(stdout=said, db=connection)
    shell.process_command(".dump")
    ((version,),) = connection.execute("PRAGMA user_version").fetchall()
    ((application,),) = connection.execute("PRAGMA application_id").fetchall()
    connection.close()
    lines = [line for line in said.getvalue().splitlines() if not line.startswith("--")]
    return "\n".join([*lines, f"PRAGMA user_version = {version};", f"PRAGMA application_id = {application};", ""])


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    target = FOLDER / f"sqlite-{len(MIGRATIONS)}.sql"
    if target.exists():
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "golden.db"
        asyncio.run(fill(path))
        target.write_text(dumped(path), encoding="utf-8")


if __name__ == "__main__":
    main()
