"""`App`, the composition root: what it refuses, and what it says then."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from holdfast import App, Retry, Status, remote, step, workflow
from holdfast.app import open_store
from holdfast.client.client import Client
from holdfast.errors import Conflict, DefinitionError, InvalidInput, NotAllowedHere, UnknownWorkflow
from tests.support.world import World


@workflow
async def hello(name: str) -> str:
    return f"hello {name}"


@workflow
async def unknown() -> None:
    return None


async def test_run_under_a_running_loop_says_what_to_write() -> None:
    """Promise: in a notebook or async code `app.run` is refused with the async form."""
    with pytest.raises(NotAllowedHere, match=r"async with app\.worker\(\)"):
        App("memory://", workflows=[hello]).run(hello("x"))


def test_run_of_a_workflow_the_app_does_not_serve() -> None:
    """Promise: it would wait forever, so it is refused with the cure."""
    with pytest.raises(UnknownWorkflow, match=r"App\(workflows=\[unknown\]\)"):
        App("memory://", workflows=[hello]).run(unknown())


def test_run_is_idempotent_by_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: the address comes from the environment; the same id and input give the same result, and different
    input is refused."""
    monkeypatch.setenv("HOLDFAST_URL", f"sqlite:///{tmp_path / 'here.db'}")
    app = App(workflows=[hello])
    assert app.run(hello("world"), id="first", timeout="10s") == "hello world"
    assert app.run(hello("world"), id="first") == "hello world"
    with pytest.raises(Conflict, match="different input"):
        app.run(hello("again"), id="first")
    assert (tmp_path / "here.db").exists()
    assert repr(app) == f"<App sqlite:///{tmp_path / 'here.db'} with 1 workflow>"
    assert not app.is_open


@pytest.mark.parametrize("url", ["oracle://x", "holdfast.db", "", "memory:/"])
async def test_an_unknown_store(url: str) -> None:
    """Promise: an address of no store names those there are."""
    with pytest.raises(InvalidInput, match=r"sqlite:///path\.db"):
        await open_store(url)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_step_limit_of_nothing_is_refused(limit: int) -> None:
    """Promise: at least one step, or None for no limit."""
    with pytest.raises(InvalidInput, match="None for no limit"):
        App(step_limit=limit)
    assert App(step_limit=None, step_retry=Retry(2)).settings.step_limit is None


def test_two_workflows_of_one_name_name_both_places() -> None:
    """Promise: the error names both definitions; the same one twice is fine."""

    def make(text: str) -> Any:
        @workflow(name="same", version="7")
        async def one() -> str:
            return text

        return one

    first, second = make("a"), make("b")
    App(workflows=[first, first])
    with pytest.raises(DefinitionError, match=r"same \(version 7\).*test_app\.py:\d+ and .*test_app\.py:\d+"):
        App(workflows=[first, second])


def test_modules_are_served_by_value_and_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: every workflow of a module; one without any, and what is no module, are refused."""
    module = ModuleType("made_up_flows")
    module.__file__ = "made_up_flows.py"
    monkeypatch.setitem(sys.modules, "made_up_flows", module)
    with pytest.raises(DefinitionError, match=r"made_up_flows \(made_up_flows\.py\) defines no workflow"):
        App(workflows=[module])
    vars(module)["hello"] = hello
    assert App(workflows=["made_up_flows"]).registry.served == (("hello", ""),)
    assert App(workflows=[module, hello]).registry.served == (("hello", ""),)
    with pytest.raises(DefinitionError, match="takes workflows, modules or module names"):
        App(workflows=[3])  # type: ignore[list-item]
    with pytest.raises(ModuleNotFoundError):
        App(workflows=["no_such_flows"])


def test_an_unknown_name_lists_what_is_there() -> None:
    """Promise: asking the registry for a name it has not says which it has."""
    with pytest.raises(UnknownWorkflow, match="hello"):
        App(workflows=[hello]).registry.require("helo")
    with pytest.raises(UnknownWorkflow, match="none"):
        App().registry.require("helo")
    assert App(workflows=[hello]).registry.require("hello").name == "hello"


def _declared() -> Any:
    @remote(name="hello")
    async def declared(name: str) -> str:
        raise NotImplementedError

    return declared


@pytest.mark.spec("openworkflow.O91")
@pytest.mark.parametrize("order", [0, 1])
async def test_a_declaration_stands_back_for_its_definition(world: World, order: int) -> None:
    """Promise: modules that break an import cycle with `@remote` can be served by one app, in any order."""
    declared = _declared()

    @workflow
    async def parent() -> str:
        said: str = await declared("child")
        return said

    both = [declared, hello] if order == 0 else [hello, declared]
    async with world.serving(*both, parent) as app:
        assert await (await app.start(parent())).result("60s") == "hello child"
        assert await (await app.start(declared("you"))).result("60s") == "hello you"


@pytest.mark.spec("openworkflow.O91")
async def test_a_process_with_only_declarations_starts_and_reads(world: World) -> None:
    """Promise: a client without the code gets typed results; its worker takes nothing it cannot advance."""
    declared = _declared()
    client = world.app(declared)
    assert client.registry.served == ()
    async with world.worker(client):
        run = await client.start(declared("far"))
        assert await run.status() is Status.PENDING
        async with world.serving(hello):
            assert await run.result("60s") == "hello far"
        assert await (await client.get(run.id)).result(0) == "hello far"


async def test_a_step_on_the_spot_with_options(world: World) -> None:
    """Promise: `step(fn, name=…)` in a workflow is a step of that name, for async and sync functions."""

    def shout(text: str) -> str:
        return text.upper()

    async def whisper(text: str) -> str:
        return text.lower()

    @workflow
    async def work() -> list[str]:
        loud = await asyncio.to_thread(step(shout, name="loud", retry=2), "a")
        also = await asyncio.to_thread(step(shout).options(key="again"), "b")
        return [loud, also, await step(whisper, name="quiet")("C"), await step(whisper, timeout="5s")("D")]

    async with world.serving(work) as app:
        run = await app.start(work())
        assert await run.result("60s") == ["A", "B", "c", "d"]
        keys = [x.data["key"] async for x in run.follow() if x.type == "done"]
    assert keys == ["loud", "again", "quiet", "whisper"]


@pytest.mark.parametrize("priority", [1.5, "high", True, 10**7])
async def test_a_priority_is_a_whole_number(world: World, priority: Any) -> None:
    """Promise: anything else is refused before anything is written."""
    app = world.app(hello)
    with pytest.raises(InvalidInput, match="priority"):
        await app.start(hello("x"), priority=priority)
    assert [view async for view in app.runs()] == []


async def test_a_client_block_opens_once_and_closes_last(tmp_path: Path) -> None:
    """Promise: `async with app:` may be nested; the store stays open until the last block ends, and opens again."""
    app = App(f"sqlite:///{tmp_path / 'store.db'}", workflows=[hello])
    async with app:
        client: Client = await app.client()
        async with app:
            assert await app.client() is client
        assert await app.client() is client
        run = await app.start(hello("x"), id="x")
    assert not app.is_open
    async with app:
        assert await (await app.get(run.id)).status() is Status.PENDING


_LEAN = """
import asyncio, sys
from holdfast import App, step, workflow

@step
async def load() -> int:
    return 1

@workflow
async def lean() -> int:
    return await load()

async def main() -> None:
    app = App(sys.argv[1], workflows=[lean])
    async with app.worker():
        await (await app.start(lean())).result()

asyncio.run(main())
print(*({"ctypes", "difflib", "getpass", "multiprocessing", "shutil", "tempfile"} & sys.modules.keys()))
"""


def test_a_worker_loads_only_what_it_needs(tmp_path: Path) -> None:
    """Promise: a process that takes runs on is there soon: what only a mishap or another store needs is not loaded."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    command = [sys.executable, "-c", _LEAN, f"sqlite:///{tmp_path}/lean.db"]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []
