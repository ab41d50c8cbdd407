"""Every command once through a real process, in a project that `holdfast init` made, served by a real worker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.root import COMMANDS
from tests.integration.cli_app_processes import PATIENCE, SRC, Place

ORDER = 'order={{"id": "{id}", "cents": 999}}'

EXERCISED = {
    "init", "worker", "start", "runs", "show", "follow", "signal", "publish", "cancel", "kill", "pause", "resume",
    "delete", "retry", "workers", "doctor", "lint", "verify", "config", "migrate", "completion",  # a day in the life
    "version",  # a day in the life
    "batch", "manifest", "flow", "export", "import", "compensate", "gc", "compact", "space", "messages",  # the rest
    "schedules", "redact",  # the rest
    "queues", "limits", "read", "update",  # a desk
    "tokens", "dashboard",  # the rest, and test_http_server.py
    "demo", "dev",  # test_demo.py, test_cli_dev.py
}  # fmt: skip
"""A command that is new has to be exercised through a real process before it is added here."""


@pytest.fixture
def project(tmp_path: Path) -> Place:
    """A project as a newcomer has it: no variable set."""
    place = Place(tmp_path)
    del place.env["HOLDFAST_URL"]
    place.env["PYTHONPATH"] = str(SRC)
    assert "holdfast.toml" in place.ok("init", ".")
    return place


def shown(place: Place, *arguments: str) -> Any:
    return json.loads(place.ok(*arguments, "--json"))


def until(place: Place, run: str, text: str) -> None:
    """Waits until the run says that."""
    deadline = time.monotonic() + PATIENCE
    while text not in place.ok("runs", "--url", f"sqlite:///{place.folder / 'holdfast.db'}"):
        assert time.monotonic() < deadline, place.ok("runs")


@pytest.mark.spec("openworkflow.O124", "openworkflow.O125")
def test_a_day_in_the_life_of_a_project(project: Place) -> None:
    """Contract: init, worker, start, signal, publish, follow, cancel, kill, pause, resume, retry, delete, workers,
    doctor, verify, config, migrate, runs, show, version, completion: each works as typed, as configured."""
    assert "migrated from version 0" in project.ok("migrate")
    with project.process("worker", "--id", "w", "--ttl", "10m", "--poll", "100ms", "-c", "5") as worker:
        worker.line("serving fulfil", "5 slots")
        for run in ("a", "b", "c"):
            assert project.ok("start", "fulfil", ORDER.format(id=run), "--id", run) == f"{run}\n"
        until(project, "a", "waiting for signal approved")
        assert shown(project, "workers")["worker"] == "w"
        with project.process("follow", "a") as follower:
            assert project.ok("signal", "a", "approved", "true") == "run a: signal approved sent\n"
            assert follower.code() == 0
            assert follower.output().splitlines()[-1].endswith("ended: completed")
        assert project.ok("publish", "news", "1") == ""
        assert "c" in project.ok("pause", "c")
        until(project, "c", "paused (operator)")
        assert "run c running" in project.ok("resume", "c")
        assert "run b" in project.ok("cancel", "b", "--reason", "tried")
        assert "run c cancelled" in project.ok("kill", "c")
        until(project, "b", "b\tcancelled")
        assert project.ok("retry", "b", "--id", "d") == "d\n"
        until(project, "d", "waiting for signal approved")
        doctor = project.run("doctor")
        assert (doctor.returncode, "problem" in doctor.stdout) == (0, False), doctor.stdout
        worker.send(signal.SIGTERM)
        assert worker.code() == 0
    assert "nothing found" in project.ok("lint")
    verified = shown(project, "verify")
    assert (verified["runs"], verified["problems"], verified["notes"]) == (4, [], [])
    assert [line.split("\t")[0] for line in project.ok("runs").splitlines()] == ["d", "c", "b", "a"]
    assert 'result    "order a is paid with payment-a"' in project.ok("show", "a")
    assert "adopted: charge" in project.ok("show", "d")
    assert project.ok("delete", "c", "--yes") == "deleted 1 run (1 tree)\n"
    assert project.run("show", "c").returncode == 1
    assert 'app\t"app:app"\tholdfast.toml' in project.ok("config")
    assert "_HOLDFAST_COMPLETE" in project.ok("completion", "bash")
    assert project.ok("version").startswith("holdfast ")


QUICK = """
from holdfast import App, workflow

@workflow
async def double(number: int) -> int:
    return 2 * number

app = App(workflows=[double])
"""
FLOW = {
    "holdfast": 1,
    "name": "paid",
    "steps": {"pay": {"call": "fulfil", "with": {"order": "${input.order}"}}},
    "output": "${steps.pay}",
}


def test_the_rest_of_the_commands(project: Place) -> None:
    """Promise: batch, manifest, flow, export, import, compensate, redact, gc, compact, space, messages and schedules
    work, each as a process; with the day in the life, the desk, `demo` and `dev` (in tests of their own) that is every
    command."""
    (project.folder / "quick.py").write_text(QUICK)
    (project.folder / "in.jsonl").write_text('{"number": 4}\n')
    project.run("batch", "quick:app", "double", "--inputs", "in.jsonl", "--out", "out.jsonl").check_returncode()
    assert [json.loads(line)["result"] for line in (project.folder / "out.jsonl").read_text().splitlines()] == [8]
    (project.folder / "paid.json").write_text(json.dumps(FLOW))
    project.ok("flow", "check", "paid.json")
    assert "pay" in project.ok("flow", "diagram", "paid.json")
    assert shown(project, "flow", "schema")
    assert "fulfil" in project.ok("manifest")
    project.ok("start", "fulfil", ORDER.format(id="a"), "--id", "a")
    refused = project.run("compensate", "a")
    assert (refused.returncode, "Traceback" in refused.stderr) == (1, False), refused.stderr
    refused = project.run("redact", "a", "input", "--yes")
    assert (refused.returncode, "holdfast cancel a" in refused.stderr) == (1, True), refused.stderr
    refused = project.run("messages", "drop", "a", "1")
    assert (refused.returncode, "no message 1 waits" in refused.stderr) == (1, True), refused.stderr
    refused = project.run("schedules", "pause", "nightly")
    assert (refused.returncode, "nightly" in refused.stderr) == (1, True), refused.stderr
    assert "Pause a schedule" in project.ok("schedules", "--help")
    project.ok("export", "a", "-o", "a.json")
    other = f"sqlite:///{project.folder / 'other.db'}"
    project.ok("migrate", "--url", other)
    project.ok("import", "a.json", "--url", other)
    assert [line.split("\t")[0] for line in project.ok("runs", "--url", other).splitlines()] == ["a"]
    for words in (["gc", "--dry-run"], ["compact", "--dry-run"], ["space"]):
        assert project.ok(*words)
        assert shown(project, *words)
    refused = project.run("dashboard", "--http", "0.0.0.0:0")
    assert (refused.returncode, "Traceback" in refused.stderr) == (1, False), refused.stderr
    assert "hf_" in project.ok("tokens", "add", "ops", "--role", "read")
    assert "ops" in project.ok("tokens", "list")
    project.ok("tokens", "revoke", "ops")
    assert set(COMMANDS) == EXERCISED


DESK = """
from holdfast import App, Limit, Queue, Stream, Update, step, workflow

api = Limit("api", rate="50/s")
lines = Stream[str]("lines")
reassign = Update[str, str]("reassign")

@step(limits=[api])
async def look_up(owner: str) -> str:
    lines.send(f"found {owner}")
    return owner

@workflow(accepts=(reassign,))
async def desk(owner: str) -> str:
    await look_up(owner)
    async with reassign.take() as ask:
        ask.answer(f"{ask.value} instead of {owner}")
    return ask.value

app = App(workflows=[desk], queues=[Queue("desks", at_once=5)])
"""


def test_a_desk_with_a_queue_a_limit_a_stream_and_an_update(project: Place) -> None:
    """Promise: queues, limits, read and update work, each as a process, beside a worker that serves them."""
    (project.folder / "desk.py").write_text(DESK)
    config = project.folder / "holdfast.toml"
    config.write_text(config.read_text().replace("app:app", "desk:app"))
    with project.process("worker", "--ttl", "10m", "--poll", "100ms") as worker:
        worker.line("serving desk")
        assert "paused" in project.ok("queues", "pause", "desks", "--reason", "lunch")
        project.ok("start", "desk", "owner=ann", "--id", "a", "--queue", "desks")
        queues = [json.loads(line) for line in project.ok("queues", "list", "--json").splitlines()]
        [queue] = [queue for queue in queues if queue["name"] == "desks"]
        assert (queue["waiting"], queue["begun"], queue["at_once"]) == (1, 0, 5)
        assert "paused" not in project.ok("queues", "resume", "desks")
        until(project, "a", "waiting for update reassign")
        assert project.ok("read", "a", "lines", "--text") == "found ann"
        assert shown(project, "read", "a", "lines")["value"] == "found ann"
        assert "rate 10/s" in project.ok("limits", "set", "api", "--rate", "10/s")
        assert shown(project, "limits", "list")["rate"] == "10/s"
        assert "rate 50/s" in project.ok("limits", "reset", "api")
        assert json.loads(project.ok("update", "a", "reassign", '"bob"', "--id", "q")) == "bob instead of ann"
        until(project, "a", "a\tcompleted")
        assert shown(project, "update", "a", "reassign", '"bob"', "--id", "q")["answer"] == "bob instead of ann"


def test_a_worker_finds_what_it_serves(project: Place) -> None:
    """Contract: with `discover` instead of an app, what is in the folder is imported, registered and run."""
    (project.folder / "flows").mkdir()
    for name in ("orders.py", "app.py", "example.py", "test_orders.py"):
        (project.folder / name).rename(project.folder / "flows" / name)
    (project.folder / "flows" / "app.py").unlink()
    (project.folder / "flows" / "example.py").unlink()
    (project.folder / "holdfast.toml").write_text('discover = ["flows"]\n[worker]\npoll = "100ms"')
    with project.process("worker", "--json") as worker:
        worker.event("started")
        order = ORDER.format(id="a")
        assert project.ok("start", "fulfil", order, "--id", "a", "--delay", "0s") == "a\n"
        project.ok("signal", "a", "approved", "true")
        end = project.run("start", "fulfil", order, "--id", "a", "--wait", "--timeout", "30s")
        assert end.stdout == '"order a is paid with payment-a"\n', end.stderr


def test_an_interrupt_and_a_reader_that_goes_away(project: Place) -> None:
    """Contract: Ctrl-C ends `follow` quietly with 130, a closed pipe ends every listing quietly with 0."""
    project.ok("start", "fulfil", ORDER.format(id="a"), "--id", "a")
    with project.process("follow", "a", is_heard=True) as follower:
        line = follower.printed()
        assert "started fulfil" in line
        follower.interrupt()
        assert follower.code() == 130
        assert not follower.lines
    for arguments in (["show", "a", "--json"], ["config"], ["doctor"], ["verify"], ["follow", "a"]):
        reader, writer = os.pipe()
        os.close(reader)
        answer = subprocess.run(
            project.argv(*arguments), cwd=project.folder, env=project.env, stdout=writer, stderr=subprocess.PIPE,
            timeout=PATIENCE, check=False,
        )  # fmt: skip
        os.close(writer)
        assert (answer.returncode in {0, 1 if arguments == ["doctor"] else 0}, answer.stderr) == (True, b""), arguments


def test_help_loads_no_optional_package(project: Place) -> None:
    """Contract: the list of commands comes without any command, store, terminal library or optional package."""
    code = (
        "import sys; sys.argv = ['holdfast', '--help']\nfrom holdfast.cli import main\n"
        "try:\n    main()\nfinally:\n    print(*sys.modules, file=sys.stderr)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], env=project.env, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    loaded = set(answer.stderr.split())
    assert answer.returncode == 0
    assert not loaded & {"apsw", "rich", "psycopg", "starlette", "uvicorn", "nats", "aetcd", "grpc", "opentelemetry",
                         "prometheus_client", "pydantic", "obstore", "yaml_rs", "jsonschema_rs", "tomllib"}  # fmt: skip
    assert not loaded & {"asyncio", "ssl", "msgspec", "logging"}
    assert len(loaded) < 160, sorted(loaded)
    commands = {name for name in loaded if name.startswith("holdfast.cli.")}
    assert commands == {"holdfast.cli.root", "holdfast.cli.output", "holdfast.cli.escapes"}
