"""`holdfast doctor`."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest

from holdfast import App
from holdfast.adapters.sqlite.condition import condition_of
from holdfast.client.inspect.findings import (
    _met,  # pyright: ignore[reportPrivateUsage]
    _waiting,  # pyright: ignore[reportPrivateUsage]
    clock_finding,
    worker_findings,
)
from holdfast.core.recovery import Recovery, encode_recovery
from holdfast.ports.leases import WorkerRow
from tests.unit.cli.conftest import Cli, change


def findings(cli: Cli, *arguments: str) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    for one in cli("doctor", "--json", *arguments).json["findings"]:
        found.setdefault(one["check"], []).append((one["state"], one["text"]))
    return found


@pytest.mark.spec("stepflow.R8")
def test_what_recovery_met_is_shown() -> None:
    """Contract: counts, and the runs by name that somebody has to look after, with a warning; of contention, which is
    none, the last, if there is nothing else."""
    now = datetime(2026, 1, 1, tzinfo=UTC)

    def found(recovery: Recovery) -> list[tuple[str, str]]:
        row = WorkerRow(
            instance="i1",
            worker="w1",
            queues=("default",),
            definitions=(),
            pid=1,
            host="here",
            started_at=now,
            recovery=encode_recovery(recovery),
        )
        checks = {"recovery", "threads"}
        return [(x.state, x.text) for x in worker_findings([row], has_work=False) if x.check in checks]

    assert found(Recovery()) == []
    left = tuple((f"r{number}", "slow") for number in range(7))
    ((state, text),) = found(Recovery(left=left))
    assert state == "warning"
    assert "w1 has 7 threads busy with steps whose result is no longer needed: slow of run r0, slow of run r1, " in text
    assert "slow of run r4 and 2 more. " in text
    contended = Recovery().with_one("contended", "r1", "worker w2 holds it", now)
    ((state, text),) = found(contended)
    assert (state, text.partition(";")[0]) == ("ok", "w1: left 1 run to workers that had them first")
    assert text.endswith("the last: run r1, worker w2 holds it")
    damaged = contended.with_one("undecodable", "r2", "the checksum of row 3 does not match", now)
    ((state, text),) = found(damaged)
    assert state == "warning"
    assert "paused 1 run that cannot be read; run r2: the checksum of row 3" in text
    later = damaged.with_one("missing definition", "r3", "no worker has it", now)
    for number in range(20):
        later = later.with_one("contended", f"c{number}", "worker w2 holds it", now)
    ((state, text),) = found(later)
    assert state == "warning"
    assert text == (
        "w1: left 21 runs to workers that had them first, paused 1 run that cannot be read, put off 1 run whose code "
        "it does not have; run r3: no worker has it; run r2: the checksum of row 3 does not match"
    )


def test_many_that_recovery_met_are_named_as_far_as_a_line_goes() -> None:
    """Contract: the latest, and how many more were met lately."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    recovery = Recovery()
    for number in range(8):
        recovery = recovery.with_one("undecodable", f"r{number}", "broken", now)
    assert _met(recovery)[1] == "; ".join(f"run r{number}: broken" for number in (7, 6, 5, 4, 3)) + "; and 3 more"


def test_an_id_that_two_live_workers_use_is_a_warning() -> None:
    """Contract: who uses it is named. An instance that was not heard of since the later one began may be its past."""
    now = datetime(2026, 1, 1, tzinfo=UTC)

    def found(*rows: tuple[str, int, int | None]) -> list[str]:
        workers = [
            WorkerRow(
                instance=f"i{number}",
                worker=worker,
                queues=("default",),
                definitions=(),
                pid=number,
                host="here",
                started_at=now + timedelta(seconds=began),
                is_live=heard is not None,
                seen_at=now + timedelta(seconds=heard or 0),
            )
            for number, (worker, began, heard) in enumerate(rows)
        ]
        return [x.text for x in worker_findings(workers, has_work=False) if x.state == "warning"]

    assert found(("w1", 0, 60), ("w2", 0, 60)) == []
    assert found(("w1", 0, None), ("w1", 30, 60)) == []
    assert found(("w1", 0, 29), ("w1", 30, 60)) == []
    (text,) = found(("w1", 30, 60), ("w2", 0, 60), ("w1", 0, 31))
    assert text == (
        "w1 is the id of 2 live workers, processes 2 on here and 0 on here: each takes the other's runs when it "
        "starts. Give each an id of its own"
    )


@pytest.mark.spec("openworkflow.O125")
def test_a_healthy_store_has_no_problem(cli: Cli) -> None:
    """Contract: exit code 0; store, library, durability, schema, clock, workers and runs are named."""
    cli.start("hello", "name=x", "--id", "r")
    cli.finish("r")
    answer = cli("doctor")
    assert answer.code == 0
    text = answer.out
    assert f"engine\tok\tSQLite {apsw.sqlite_lib_version()}; durability full: every commit" in text
    assert "schema\tok\tversion " in text
    assert "clock\tok\t" in text
    assert "workers\twarning\tnone is live" in text
    assert "runs\tok\t1 completed" in text
    assert "waiting\tok\tno run waits for a worker" in text


def test_runs_that_nobody_serves_are_a_problem(cli: Cli) -> None:
    """Contract: the definition and the queue are named, and who waits longest; exit code 1."""
    cli.start("priced", "--input", '{"order": {"id": "1", "cents": 2}}', "--id", "r1", "--queue", "slow")
    cli.start("priced", "--input", '{"order": {"id": "1", "cents": 2}}', "--id", "r2", "--queue", "slow")
    assert cli("doctor").code == 1
    found = findings(cli)
    [(state, text)] = found["waiting"]
    assert state == "problem"
    told = "priced 2: 2 waiting on queue slow, and no live worker serves priced 2 there. r1 has waited for "
    assert text.startswith(told)
    assert found["workers"] == [("problem", "none is live. Start one: holdfast worker")]


def test_runs_of_a_worker_that_has_gone_wait_for_another() -> None:
    """Promise: no "waiting ok" beside runs that a dead worker holds; a problem if no other worker lives."""
    now = datetime(2026, 1, 1, tzinfo=UTC)

    def worker(name: str, *, active: int, is_live: bool) -> WorkerRow:
        return WorkerRow(instance=name, worker=name, queues=("default",), definitions=(), pid=1, host="here",
                         started_at=now, is_live=is_live, active=active)  # fmt: skip

    def found(*workers: WorkerRow) -> list[tuple[str, str]]:
        return [(x.state, x.text) for x in _waiting([], workers, now)]

    gone, live = worker("w1", active=2, is_live=False), worker("w2", active=1, is_live=True)
    assert found(live) == [("ok", "no run waits for a worker")]
    assert found(live, worker("w3", active=0, is_live=False)) == [("ok", "no run waits for a worker")]
    assert found(live, gone) == [("warning", "2 runs of w1, which has gone, wait for another worker")]
    assert found(gone) == [("problem", "2 runs of w1, which has gone, wait for another worker")]
    many = [worker(f"x{number}", active=1, is_live=False) for number in range(6)]
    assert found(*many)[0][1] == "6 runs of x0, x1, x2, x3, x4 and 1 more, which have gone, wait for another worker"
    (text,) = [x.text for x in worker_findings([gone], has_work=True) if "w1" in x.text]
    assert text == "w1 has gone and holds 2 runs; start a worker that takes them over"


def test_a_worker_that_serves_them_is_no_problem(cli: Cli) -> None:
    cli.start("approval", "name=x", "--id", "r")

    async def look() -> dict[str, list[tuple[str, str]]]:
        async with cli.app.worker(id="w1"):
            return await asyncio.to_thread(findings, cli)

    found = asyncio.run(look())
    assert found["workers"][0][0] == "ok"
    assert "w1 (default; " in found["workers"][0][1]
    assert all(state == "ok" for state, _ in found["waiting"])


def test_a_run_that_was_quarantined_is_a_problem_and_one_that_an_operator_paused_is_not(cli: Cli) -> None:
    cli.start("hello", "name=x", "--id", "held")
    cli.ok("pause", "held", "--reason", "holiday")
    assert findings(cli)["paused"] == [("warning", "run held: paused (operator): holiday")]
    change(cli, "UPDATE runs SET doing = CAST(replace(doing, 'operator', 'quarantined') AS BLOB)")
    assert findings(cli)["paused"][0][0] == "problem"


def test_a_missing_migration_is_a_problem_and_is_not_made(cli: Cli) -> None:
    """Contract: doctor changes nothing, whatever auto_migrate says."""
    cli.start("hello", "name=x")
    change(cli, "PRAGMA user_version = 0")
    change(cli, "PRAGMA user_version = 0")
    found = findings(cli)
    assert found["schema"][0][0] == "problem"
    assert "Run: holdfast migrate" in found["schema"][0][1]


@pytest.mark.parametrize(
    ("config", "check", "words"),
    [
        ("ap = 'x:y'", "config", "Did you mean app?"),
        ("app = 'nowhere:app'", "app", "no module 'nowhere'"),
        ("discover = ['nowhere']", "app", "no folder"),
        ("[store]\nurl = 'sqlite:///missing.db'", "store", "there is no store"),
    ],
    ids=["key", "app", "discover", "store"],
)  # fmt: skip
def test_what_is_configured_wrongly_is_a_problem(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, config: str, check: str, words: str
) -> None:
    """Contract: a finding, not an end: the other checks are still made where they can be."""
    if check != "store":
        cli.start("hello", "name=x")
    else:
        monkeypatch.delenv("HOLDFAST_URL")
    (cli.folder / "holdfast.toml").write_text(config)
    assert cli("doctor").code == 1
    [(state, text)] = findings(cli)[check]
    assert state == "problem"
    assert words in text
    assert check != "app" or "engine" in findings(cli)


@pytest.mark.spec("stem.S61")
def test_clocks_that_differ_are_a_problem() -> None:
    """Contract: the store's clock against ours, and the newest run against both."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    second = timedelta(seconds=1)
    assert clock_finding(now, now + second / 2, now).state == "ok"
    assert clock_finding(now, now, None).state == "ok"
    assert "differ by 2 s" in clock_finding(now, now + 2 * second, now).text
    ahead = clock_finding(now, now, now + 60 * second)
    assert (ahead.state, "1 min in the future" in ahead.text) == ("problem", True)


def test_an_unsound_library_is_a_fault() -> None:
    assert condition_of("full", "3.51.3").faults == ()
    [fault] = condition_of("full", "3.46.1").faults
    assert "3.46.1" in fault
    assert "power cut" in condition_of("normal").durability


async def test_the_backlog_is_the_same_in_memory(tmp_path: Path) -> None:
    """Contract: due and unheld runs count, delayed ones do not; the longest wait first."""
    import holdfast.ports.condition as ports
    from holdfast import workflow

    @workflow
    async def one() -> None: ...

    @workflow(version="2")
    async def two() -> None: ...

    seen: list[list[tuple[str, str, str, int, str]]] = []
    for url in ("memory://", f"sqlite:///{tmp_path / 'b.db'}"):
        async with App(url, workflows=[one, two]) as app:
            await app.start(two(), id="a")
            await app.start(one(), id="b", queue="slow")
            await app.start(two(), id="c")
            await app.start(one(), id="d", delay="1h")
            store = (await app.client()).store
            assert isinstance(store, ports.Diagnosable)
            found = await store.backlog()
            seen.append([(x.workflow, x.version, x.queue, x.count, x.oldest) for x in found])
            assert (await store.condition()).engine
    assert seen == [[("two", "2", "default", 2, "a"), ("one", "", "slow", 1, "b")]] * 2


def test_suspects_are_named_in_words(cli: Cli) -> None:
    """Contract: a run whose workers died is a warning, with what stands against it; `show` says the same."""
    cli.start("hello", "name=x", "--id", "r")
    change(cli, "UPDATE runs SET claims = 3, deaths = 3, solo = 2, alone = 2")
    words = "suspect: its worker died twice while it ran alone"
    assert findings(cli)["suspects"] == [("warning", f"run r: {words}")]
    assert words in cli.ok("show", "r")
