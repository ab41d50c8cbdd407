"""`workers`, `doctor`, `verify`, `config`, `migrate`, `completion`."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast import App
from holdfast.adapters.sqlite.condition import condition_of
from holdfast.cli.flows import FlowGroup
from holdfast.cli.root import COMMANDS
from holdfast.client.inspect.findings import _met, clock_finding, worker_findings  # pyright: ignore[reportPrivateUsage]
from holdfast.core.recovery import Recovery, encode_recovery
from holdfast.ports.leases import WorkerRow
from tests.unit.cli.conftest import Cli


def findings(cli: Cli, *arguments: str) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    for one in cli("doctor", "--json", *arguments).json["findings"]:
        found.setdefault(one["check"], []).append((one["state"], one["text"]))
    return found


def change(cli: Cli, statement: str, *values: object) -> None:
    """What no code of ours does: somebody writes into the file."""
    connection = apsw.Connection(str(cli.folder / "store.db"))
    connection.execute(statement, values)
    connection.close()


# -- recovery ---------------------------------------------------------------------------------------------------------


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
    assert found(contended) == [("ok", "w1 met 1 contended; the last: run r1, worker w2 holds it")]
    damaged = contended.with_one("undecodable", "r2", "the checksum of row 3 does not hold", now)
    ((state, text),) = found(damaged)
    assert state == "warning"
    assert "1 undecodable; run r2: the checksum of row 3" in text
    later = damaged.with_one("missing definition", "r3", "no worker has it", now)
    for number in range(20):
        later = later.with_one("contended", f"c{number}", "worker w2 holds it", now)
    ((state, text),) = found(later)
    assert state == "warning"
    assert text == (
        "w1 met 21 contended, 1 undecodable, 1 missing definition; run r3: no worker has it; run r2: the checksum of "
        "row 3 does not hold"
    )


def test_many_that_recovery_met_are_named_as_far_as_a_line_goes() -> None:
    """Contract: the latest, and how many more were met lately."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    recovery = Recovery()
    for number in range(8):
        recovery = recovery.with_one("undecodable", f"r{number}", "broken", now)
    assert _met(recovery)[1] == "; ".join(f"run r{number}: broken" for number in (7, 6, 5, 4, 3)) + "; and 3 more"


# -- workers -----------------------------------------------------------------------------------------------------------


def test_workers_are_listed_with_what_they_serve(cli: Cli) -> None:
    """Contract: live ones, with --all also those that have gone; in a pipe one tab-separated line each."""
    cli.start("hello", "name=x", "--id", "r")

    async def look() -> tuple[str, Any]:
        async with cli.app.worker(id="w1", queues=["default", "slow"]):
            plain = await asyncio.to_thread(cli.ok, "workers")
            return plain, json.loads(await asyncio.to_thread(cli.ok, "workers", "--json"))

    line, shown = asyncio.run(look())
    worker, state, _, queues, _, pid, _, serves = line.rstrip("\n").split("\t")
    assert (worker, state, queues) == ("w1", "live", "default,slow")
    assert serves == "approval, fails, hello, parent, payment, priced 2"
    assert shown["pid"] == int(pid)
    assert cli.ok("workers") == ""
    assert cli.ok("workers", "--all").split("\t")[1] == "gone"


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


# -- doctor ------------------------------------------------------------------------------------------------------------


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
    [(state, text), oldest] = found["waiting"]
    assert state == "problem"
    assert text == "priced 2: 2 waiting on queue slow, and no live worker serves priced 2 there"
    assert oldest[1].startswith("the oldest, r1, has waited for a worker for ")
    assert found["workers"] == [("problem", "none is live. Start one: holdfast worker")]


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


# -- verify ------------------------------------------------------------------------------------------------------------


def test_a_sound_store_is_verified(cli: Cli) -> None:
    """Contract: every run, open and ended, its rows counted; exit code 0."""
    cli.start("fails", "text=boo", "--id", "bad")
    cli.finish("bad")
    cli.start("parent", "name=x", "--id", "par")
    cli.finish("par")
    cli.start("hello", "name=x", "--id", "open")
    whole = cli("verify", "--json")
    assert (whole.code, whole.json["runs"], whole.json["problems"]) == (0, 4, [])
    assert cli.ok("verify").startswith(f"4 runs, {whole.json['rows']} journal rows: all hold")
    one = cli("verify", "--run", "open", "--json").json
    assert (one["runs"], one["rows"], one["problems"], one["notes"]) == (1, 1, [], [])
    assert "claims" in " ".join(one["unchecked"])


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE events SET body = CAST(replace(body, 'hello', 'HELLO') AS BLOB)", ["checksum of row 1"]),
        ("UPDATE events SET at = at + 1 WHERE ordinal = 2", ["checksum of row 2"]),
        ("UPDATE events SET checksum = zeroblob(16) WHERE ordinal = 1", ["checksum of row 1"]),
        ("DELETE FROM events WHERE ordinal = 2", ["row 2 is missing"]),
        ("DELETE FROM events WHERE ordinal < 9 AND seq < (SELECT max(seq) FROM events)", ["row 1 is missing"]),
        ("UPDATE runs SET status = 'failed'", ["its row says status", "failed", "completed"]),
        ("UPDATE runs SET next_ordinal = next_ordinal + 1", ["is next, its journal ends at"]),
        ("UPDATE runs SET ended_at = ended_at + 1", ["ended_at"]),
        ("UPDATE runs SET queue = 'other'", ["its row says queue = 'other', its journal 'default'"]),
        ("UPDATE runs SET id = 'victim' || 's'", ["checksum of row 1"]),
        ("UPDATE runs SET input_hash = 'zz'", ["input_hash"]),
        ("UPDATE runs SET keep = 1", ["keep"]),
        ("UPDATE runs SET inbox_last = 1", ["message 1 in its inbox is missing"]),
    ],
    ids=[
        "body", "time", "checksum", "row gone", "rows gone", "status", "ordinal", "projection", "queue", "id", "input",
        "keep", "inbox",
    ],
)  # fmt: skip
def test_what_does_not_hold_is_named(cli: Cli, statement: str, words: list[str]) -> None:
    """Contract: a changed byte, a lost row, a row that is not its fold: each is found and named; exit code 1."""
    cli.start("hello", "name=x", "--id", "victim")
    cli.finish("victim")
    change(cli, statement)
    answer = cli("verify")
    assert answer.code == 1
    [line, verdict] = answer.out.splitlines()
    assert line.startswith("run victim")
    assert all(word in line for word in words), line
    assert verdict.endswith("1 do not hold")


def test_a_damaged_message_is_named_and_dropped(cli: Cli) -> None:
    """Contract: `verify` names its number, `drop` gives it up, and then all holds."""
    cli.start("hello", "name=x", "--id", "open")
    cli.ok("signal", "open", "go", "7")
    change(cli, "UPDATE inbox SET body = CAST(replace(body, '7', '8') AS BLOB)")
    assert "run open: message 1 in its inbox was changed or damaged" in cli("verify").out
    assert cli("drop", "open", "1", "--json").json == {"run": "open", "message": 1, "told_again": False}
    assert cli("verify").code == 0
    assert "message 1 dropped" in cli.ok("drop", "open", "1", "--reason", "again")
    assert cli("drop", "open", "2").code == 1


def test_pages_are_followed(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.cli import verifying

    monkeypatch.setattr(verifying, "PAGE", 2)
    for number in range(5):
        cli.start("hello", "name=x", "--id", f"r{number}")
    assert cli("verify", "--json").json["runs"] == 5


# -- config ------------------------------------------------------------------------------------------------------------


def test_every_setting_is_shown_with_its_origin(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract: key, value as a file would hold it, who said so; a password is never shown."""
    (cli.folder / "holdfast.toml").write_text('[leases]\nttl = "90s"\n[worker]\nqueues = ["a", "b"]')
    monkeypatch.setenv("HOLDFAST_URL", "postgresql://me:secret@host/db?schema=x&password=secret")
    lines = dict(line.split("\t", 1) for line in cli.ok("config").splitlines())
    assert lines["leases.ttl"] == '"1m30s"\tholdfast.toml'
    assert lines["worker.queues"] == '["a","b"]\tholdfast.toml'
    assert lines["worker.concurrency"] == "100\tdefault"
    assert lines["store.url"] == '"postgresql://me@host/db?schema=x"\t$HOLDFAST_URL'
    whole = cli("config", "--json").json
    assert whole["file"] == str(cli.folder / "holdfast.toml")
    monkeypatch.setenv("HOLDFAST_HTTP_SESSION_KEY", "hunter2")
    assert "hunter2" not in cli.ok("config") + cli.ok("config", "--json")
    assert whole["settings"]["leases.ttl"] == {"value": "1m30s", "origin": whole["file"]}
    assert "secret" not in json.dumps(whole)


def test_a_wrong_configuration_is_a_sentence(cli: Cli) -> None:
    (cli.folder / "holdfast.toml").write_text("[worker]\nconcurency = 3")
    answer = cli("config")
    assert answer.code == 1
    assert "Did you mean concurrency?" in answer.error


# -- migrate -----------------------------------------------------------------------------------------------------------


def test_a_schema_is_checked_and_brought_up_to_date(cli: Cli) -> None:
    """Contract: --check changes nothing and exits with 1 while something is missing; migrate makes it, once."""
    check = cli("migrate", "--check")
    assert check.code == 1
    assert "schema version 0" in check.out
    assert not (cli.folder / "store.db").exists()
    assert "brought from version 0" in cli.ok("migrate")
    assert "up to date" in cli.ok("migrate")
    assert "up to date" in cli.ok("migrate", "--check")
    shown = cli("migrate", "--json").json
    assert (shown["pending"], shown["before"]) == (0, shown["latest"])


def test_migrate_does_not_need_auto_migrate(cli: Cli) -> None:
    (cli.folder / "holdfast.toml").write_text("[store]\nauto_migrate = false")
    assert "holdfast migrate" in cli("start", "shop:app", "hello", "name=x").error
    cli.ok("migrate")
    assert cli.start("hello", "name=x", "--id", "r") == "r"


# -- completion --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script(cli: Cli, shell: str) -> None:
    assert "_HOLDFAST_COMPLETE" in cli.ok("completion", shell)
    assert cli("completion", shell, "--json").json["shell"] == shell


def test_words_are_completed(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract: what the script asks is answered: commands, then options."""
    monkeypatch.setenv("_HOLDFAST_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "holdfast re")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert {line.split(",")[1] for line in cli.ok().splitlines()} == {"resume", "retry"}
    monkeypatch.setenv("COMP_WORDS", "holdfast runs --st")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert cli.ok().split() == ["plain,--status"]


def test_an_unknown_shell_is_wrong_usage(cli: Cli) -> None:
    assert cli("completion", "tcsh").code == 2


# -- all of them -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_json_debug_config_and_a_summary(cli: Cli, name: str) -> None:
    """Contract: `--json` on every command, and each is in the list of commands with a word on what it does."""
    parts = {"flow": list(FlowGroup.places), "tokens": ["add", "list", "revoke"]}
    ways = [(name, part) for part in parts[name]] if name in parts else [(name,)]
    for words in ways:
        text = cli.ok(*words, "--help")
        assert all(option in text for option in ("--json", "--debug", "--config", "--help")), words
    assert any(line.split()[:1] == [name] and len(line.split()) > 2 for line in cli.ok("--help").splitlines())


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
