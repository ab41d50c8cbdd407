"""`holdfast gc`, `compact`, `space`: on a store that runs have grown in."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import click
import pytest
from click.testing import CliRunner

from holdfast import App, Signal, step, workflow
from holdfast.adapters.sqlite.connections import run as execute
from holdfast.cli.commands import compact, gc, space, verify
from holdfast.cli.output import size_text
from holdfast.core.turn import is_compacted

go = Signal[str]("go")


@step
async def note(number: int, size: int = 0) -> str:
    return f"{number}" + "x" * size


@workflow
async def long(steps: int) -> str:
    for number in range(steps):
        await note(number)
    return await go.wait()


@workflow(keep="1ms")
async def short() -> str:
    return await note(0, 200_000)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with a long run that waits, and one that ended and may go at once."""
    address = f"sqlite:///{tmp_path / 'a.db'}"
    app = App(address, workflows=[long, short], snapshot_every=0, step_limit=None)

    async def grow() -> None:
        async with app.worker():
            await (await app.start(short(), id="short")).result("30s")
            run = await app.start(long(50), id="long")
            async with asyncio.timeout(30):
                while (await run.view()).turns < 52:
                    await run.wait("10ms")

    asyncio.run(grow())
    return address


def said(command: click.Command, *arguments: str) -> str:
    answer = CliRunner().invoke(command, list(arguments), catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    return answer.stdout


def records(command: click.Command, *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said(command, *arguments, "--json").splitlines()]


def test_gc_says_what_it_would_take_and_takes_it(url: str) -> None:
    """Contract: --dry-run removes nothing, and says which blobs follow the runs; without it the same goes, and those
    blobs after their grace."""
    [would] = records(gc.command, "--url", url, "--dry-run")
    assert (would["dry_run"], would["trees"], would["runs"], would["blobs"]) == (True, 1, 1, 0)
    assert would["later_blobs"] == 1
    assert would["later_blob_bytes"] > 200_000
    assert "1 more" in said(gc.command, "--url", url, "--dry-run")
    [done] = records(gc.command, "--url", url, "--grace", "0s")
    assert (done["dry_run"], done["trees"], done["rows"]) == (False, 1, would["rows"])
    assert done["blobs"] == 1
    assert done["blob_bytes"] > 200_000
    assert said(gc.command, "--url", url) == "removed 0 runs (0 trees, 0 journal rows)\nremoved 0 blobs (0 B)\n"


def test_gc_takes_the_last_run_too(tmp_path: Path) -> None:
    """Contract: what --dry-run says goes, also the run whose row is the newest of the whole journal; the report of
    space counts nothing of it."""
    url = f"sqlite:///{tmp_path / 'last.db'}"
    app = App(url, workflows=[short])

    async def end() -> None:
        async with app.worker():
            await (await app.start(short(), id="short")).result("30s")

    asyncio.run(end())
    [would] = records(gc.command, "--url", url, "--dry-run")
    [done] = records(gc.command, "--url", url)
    assert [(each["trees"], each["runs"], each["rows"]) for each in (would, done)] == [(1, 1, would["rows"])] * 2
    assert "table\tevents\t0\t0\n" in said(space.command, "--url", url)
    assert records(verify.command, "--url", url)[-1]["runs"] == 0


def test_gc_leaves_a_sweeping_worker_alone(url: str) -> None:
    """Contract: one at a time; the error says who does it."""

    async def sweeps() -> None:
        async with App(url) as app:
            store = (await app.client()).store
            assert await store.take_duty("sweep", holder="a worker", ttl=timedelta(minutes=2))

    asyncio.run(sweeps())
    answer = CliRunner().invoke(gc.command, ["--url", url])
    assert answer.exit_code == 1
    assert "a worker is sweeping this store just now" in str(answer.exception)


def test_compact_makes_long_journals_short(url: str) -> None:
    """Contract: those with enough rows, or the one that is named; --dry-run only counts; the run goes on."""
    assert records(compact.command, "--url", url) == [{"dry_run": False, "runs": 0, "rows": 0, "problems": 0}]
    assert records(compact.command, "--url", url, "--rows", "20", "--dry-run") == [
        {"run": "long", "rows": 50},
        {"dry_run": True, "runs": 1, "rows": 50, "problems": 0},
    ]
    assert records(compact.command, "long", "--url", url)[0] == {"run": "long", "rows": 50}
    assert said(compact.command, "long", "--url", url) == "compacted 0 runs, 0 journal rows less\n"

    async def go_on() -> str:
        app = App(url, workflows=[long], step_limit=None)
        async with app.worker():
            run = await app.get("long", long)
            assert is_compacted((await (await app.client()).store.history("long"))[0])
            await run.signal(go, "on")
            return await run.result("30s")

    assert asyncio.run(go_on()) == "on"


def test_compact_goes_on_after_a_run_that_is_damaged(url: str) -> None:
    """Contract: the others are compacted, the damaged one is named with what is wrong and left alone; exit code 1."""
    app = App(url, workflows=[long], snapshot_every=0)

    async def grow() -> None:
        async with app.worker():
            for name in ("after", "damaged"):
                run = await app.start(long(20), id=name)
                async with asyncio.timeout(30):
                    while (await run.view()).turns < 22:
                        await run.wait("10ms")

    asyncio.run(grow())
    connection = apsw.Connection(url.removeprefix("sqlite:///"))
    damage = "UPDATE events SET body = x'00' WHERE ordinal = 5 AND run = (SELECT no FROM runs WHERE id = 'damaged')"
    execute(connection, damage)
    connection.close()
    answer = CliRunner().invoke(compact.command, ["--url", url, "--rows", "20", "--json"], standalone_mode=False)
    assert answer.return_value == 1
    *found, last = [json.loads(line) for line in answer.stdout.splitlines()]
    assert [one["run"] for one in found] == ["damaged", "after", "long"]
    assert found[0]["problem"].startswith("the checksum of row 5 does not match")
    assert [one["rows"] for one in found[1:]] == [20, 50]
    assert last == {"dry_run": False, "runs": 2, "rows": 70, "problems": 1}
    answer = CliRunner().invoke(compact.command, ["damaged", "--url", url], standalone_mode=False)
    assert answer.return_value == 1
    assert "run damaged: the checksum" in answer.stdout
    assert "1 run is damaged" in answer.stdout


def test_space_says_where_the_room_goes(url: str) -> None:
    """Contract: tables, kinds of blobs, the largest runs, and what retention would take; as a table and as JSON."""
    [report] = records(space.command, "--url", url, "--largest", "1")
    assert report["tables"]["runs"]["rows"] == 2
    assert report["tables"]["events"]["rows"] > 50
    assert report["blobs"]["payload"]["bytes"] > 200_000
    assert [run["run"] for run in report["largest"]] == ["long"]
    assert report["expired"]["runs"] == 1
    assert report["total"] > report["tables"]["events"]["bytes"]
    text = said(space.command, "--url", url)
    assert "blobs\tpayload\t" in text
    assert "removable runs\t1\t" in text


@pytest.mark.parametrize(("size", "text"), [(0, "0 B"), (999, "999 B"), (1_400_000, "1.4 MB"), (2 * 10**12, "2.0 TB")])
def test_sizes_are_for_people(size: int, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("DELETE FROM blobs", "no blob"),
        ("UPDATE blobs SET data = zeroblob(length(data))", "does not hold the bytes of that name"),
    ],
    ids=["missing", "changed"],
)
def test_verify_reads_the_large_payloads(url: str, statement: str, words: str) -> None:
    """Contract: a payload that is gone, or that is not what its name says, is found in the run that names it."""
    assert records(verify.command, "--url", url)[0]["problems"] == []
    connection = apsw.Connection(url.removeprefix("sqlite:///"))
    execute(connection, statement)
    connection.close()
    [answer] = records(verify.command, "--url", url)
    [problem] = answer["problems"]
    assert problem["run"] == "short"
    assert words in problem["problem"]
