"""The command line inside this process: quick enough to try every case. Real processes are in tests/integration."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import apsw
import pytest

from holdfast import App
from holdfast.cli.root import run
from holdfast.cli.targets import load_app

PATIENCE = 60.0

SHOP = """
from __future__ import annotations

import asyncio
from dataclasses import dataclass

from holdfast import App, Retry, RunVar, Signal, Topic, step, workflow

approved = Signal[bool]("approved")
paid = Topic[str]("paid")
progress = RunVar[str]("progress")


@dataclass
class Order:
    id: str
    cents: int


@step
async def greet(name: str) -> str:
    return f"hello {name}"


@workflow
async def hello(name: str) -> str:
    return await greet(name)


@workflow
async def approval(name: str) -> str:
    await greet(name)
    progress.set("asked")
    return f"{name}: {await approved.wait()}"


@workflow
async def payment() -> str:
    return await paid.wait()


@workflow(version="2")
async def priced(order: Order) -> int:
    return order.cents


@step(retry=Retry(2, first="1ms"))
async def breaks(text: str) -> None:
    raise ValueError(text)


@workflow
async def fails(text: str) -> str:
    await greet(text)
    await breaks(text)
    return text


@workflow
async def parent(name: str) -> str:
    return await hello(name)


app = App(workflows=[hello, approval, payment, priced, fails, parent])
"""


@dataclass(frozen=True)
class Answer:
    """What a command said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its one object."""
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """Its one sentence; nothing was printed beside it."""
        assert not self.out
        *usage, line = self.err.splitlines()
        assert line.startswith("error: "), self.err
        assert all(text.startswith(("Usage: ", "  ")) for text in usage), self.err
        return line


@pytest.fixture
def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From its call on, commands print as they do for a person."""

    def always(_: object) -> bool:
        return True

    return lambda: monkeypatch.setattr("holdfast.cli.output.is_terminal", always)


class Cli:
    """Commands run in a folder with an app (`shop:app`) and a store of its own."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder / 'store.db'}"
        self._capsys = capsys
        (folder / "shop.py").write_text(SHOP)

    def __call__(self, *arguments: str) -> Answer:
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            run(arguments)
        out, err = self._capsys.readouterr()
        assert isinstance(end.value.code, int)
        assert "Traceback" not in err or "--debug" in arguments, err
        return Answer(end.value.code, out, err)

    def ok(self, *arguments: str) -> str:
        """A command that has to succeed in silence; gives what it printed."""
        answer = self(*arguments)
        assert answer.code == 0, answer.err
        assert not answer.err
        return answer.out

    def start(self, *arguments: str) -> str:
        """Starts a run of `shop:app`; gives its id."""
        return self.ok("start", "shop:app", *arguments).strip()

    @property
    def app(self) -> App:
        """`shop:app`."""
        return load_app("shop:app")

    def serve(self, until: Callable[[App], Awaitable[bool]]) -> None:
        """A worker of this process, until something is so."""

        async def work() -> None:
            async with asyncio.timeout(PATIENCE), self.app.worker(poll="20ms"):
                while not await until(self.app):  # noqa: ASYNC110 a store is asked, not an event
                    await asyncio.sleep(0.01)

        asyncio.run(work())

    def deploy(self, old: str, new: str) -> None:
        """Changes the code of `shop`, as the next process would find it."""
        assert old in SHOP
        (self.folder / "shop.py").write_text(SHOP.replace(old, new))
        importlib.invalidate_caches()
        sys.modules.pop("shop", None)

    def finish(self, *ids: str) -> None:
        """A worker of this process, until these runs have ended."""

        async def over(app: App) -> bool:
            return all([(await (await app.get(one)).status()).is_terminal for one in ids])

        self.serve(over)

    def until_waiting(self, run: str, text: str) -> None:
        """A worker of this process, until the run says that."""

        async def says(app: App) -> bool:
            return text in (await (await app.get(run)).view()).waiting

        self.serve(says)


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Cli]:
    """A folder, entered; what is imported from it is forgotten afterwards."""
    made = Cli(tmp_path, capsys)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_URL", made.url)
    monkeypatch.setenv("HOLDFAST_CONFIG", "")  # `--config` sets it: here it is put back
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield made
    new = set(sys.modules) - before
    roots = {name for name in new if "." not in name and _lies_in(sys.modules[name], tmp_path)}
    for name in new:
        if name.partition(".")[0] in roots:
            del sys.modules[name]


def _lies_in(module: ModuleType, folder: Path) -> bool:
    places = [getattr(module, "__file__", None), *getattr(module, "__path__", [])]
    return any(str(place).startswith(str(folder)) for place in places)


def change(cli: Cli, statement: str, *values: object) -> None:
    """What no code of ours does: somebody writes into the file."""
    connection = apsw.Connection(str(cli.folder / "store.db"))
    connection.execute(statement, values)
    connection.close()
