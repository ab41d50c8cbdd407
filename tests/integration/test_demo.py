"""`holdfast demo`: it shows what it says, it can fail, it leaves nothing behind. Real processes, killed for real."""

from __future__ import annotations

import asyncio
import dataclasses
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.demo.demo_story import POINTS, new_seed, plan_for
from holdfast.cli.demo.verdict import Kill, Note, Picture, Recorded, judge, read_ledger
from tests.integration.demo_place import PATIENCE, Place, lines_until

WORKER = re.compile(r"worker-\d \((\d+)\)")
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f]")
SEEDS = {"charge": 2, "warehouse": 1, "ship.pack": 5, "ship.collect": 0}
"""A seed for every point of the kill."""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def is_gone(pid: str) -> bool:
    """No such process, or one that nobody has asked after yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return not Path("/proc/self").exists() or not Path(f"/proc/{pid}").exists()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110 another process makes it true
            await asyncio.sleep(0.01)


# -- how it goes well --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["charge", "ship.pack", "ship.collect"])
def test_a_kill_anywhere_is_survived_and_the_books_agree(place: Place, point: str) -> None:
    """Promise: wherever the seed kills, the result is right, and only what was in flight happened twice."""
    answer = place.run("--fast", "--json", "--seed", str(SEEDS[point]))
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert not answer.stderr
    shown: dict[str, Any] = json.loads(answer.stdout)
    assert shown["ok"] is True
    assert shown["completed_at_kill"]
    steps = {step["step"]: step for step in shown["steps"]}
    for name in shown["completed_at_kill"]:
        assert (steps[name]["happened"], steps[name]["cut_off"]) == (1, 0)
    for name in shown["in_flight_at_kill"]:
        assert steps[name]["happened"] == 2
        assert steps[name]["cut_off"] == 1
    assert len(steps) == 8
    assert all(step["completed"] == 1 for step in steps.values())
    assert steps["charge"]["failed"] == 1
    assert not place.left_behind()


def test_a_pipe_gets_plain_lines(place: Place) -> None:
    """Contract: no control codes, no long lines, the kill marked, the table, one sentence; nothing is left behind."""
    answer = place.run("--fast", "--seed", str(SEEDS["warehouse"]))
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert not answer.stderr
    assert not CONTROL.search(answer.stdout)
    assert answer.stdout.isascii()
    assert max(len(line) for line in answer.stdout.splitlines()) <= 80
    # A slow machine may get to the kill after sms has completed: warehouse alone is in flight then.
    assert re.search(r"=== SIGKILL: worker-1 \(\d+\) is dead, (sms and )?warehouse in flight ===", answer.stdout)
    assert re.search(r"worker-1 \(\d+\) +charge: failed \(card network down\), again in", answer.stdout)
    assert re.search(r"worker-2 \(\d+\) +takes over; [34] completed steps: read back, not run", answer.stdout)
    assert re.search(r"worker-2 \(\d+\) +warehouse, attempt 2: completed", answer.stdout)
    assert re.search(r"^reserve +once +completed by attempt 1$", answer.stdout, re.MULTILINE)
    assert re.search(r"^warehouse +twice +completed by attempt 2 \(1 cut off\)$", answer.stdout, re.MULTILINE)
    assert re.search("The [34] steps recorded as completed before the kill never ran again", answer.stdout)
    assert "1 s here, 15 s by default" in " ".join(answer.stdout.split())
    assert "holdfast init shop creates a small project" in " ".join(answer.stdout.split())
    pids = set(WORKER.findall(answer.stdout))
    assert len(pids) == 2
    assert all(is_gone(pid) for pid in pids)
    assert not place.left_behind()


@pytest.mark.parametrize(
    ("columns", "env"),
    [(80, {}), (40, {"PYTHONIOENCODING": "ascii", "NO_COLOR": "1"})],
    ids=["80 columns", "40 columns, no colour, no UTF-8"],
)
def test_a_terminal_gets_lines_that_move(place: Place, columns: int, env: dict[str, str]) -> None:
    """Contract: it fits the width, says where the kill was, and asks for nothing the terminal does not have."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    size = {"COLUMNS": str(columns), "LINES": "24", "TERM": "xterm-256color"}
    process = subprocess.Popen(
        place.argv("--fast", "--seed", "1"), cwd=place.here, env={**place.env, "NO_COLOR": "", **size, **env},
        stdin=follower, stdout=follower, stderr=follower,
    )  # fmt: skip
    os.close(follower)
    data = b""
    try:
        while part := os.read(leader, 65536):
            data += part
    except OSError:  # how Linux says that the other side has closed
        pass
    os.close(leader)
    shown = data.decode()
    assert process.wait(PATIENCE) == 0, shown
    assert "\x1b[?25h" in shown, "the cursor is back"
    assert ("\x1b[32m" in shown) is not bool(env)
    assert ("\u2501" in shown) is not bool(env)
    assert "\\u" not in shown
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    lines = [line for part in plain.split("\n") for line in part.split("\r")]
    assert [line for line in lines if len(line) > columns] == []
    assert not any(line.startswith("the journal") for line in lines), "the head of the table is folded like its rows"
    assert any("SIGKILL: worker-1 (" in line for line in lines)
    assert any("email: in flight for " in line for line in lines)
    assert any("sleeping until " in line for line in lines)
    assert any("held by the dead worker-1" in line for line in lines)
    assert not place.left_behind()


# -- how it fails ------------------------------------------------------------------------------------------------------

# The second worker writes what `reserve` wrote into the ledger once more: as if its side effect had happened again.
RUNS_AGAIN = """
import os
from pathlib import Path
from holdfast.cli.demo import demo_app
from holdfast.cli.demo.demo_app import app

LEDGER = Path(os.environ["DEMO_LEDGER"])
written = demo_app.note

def note(word):
    others = [line for line in LEDGER.read_text().splitlines() if line.split("\\t")[4] != str(os.getpid())]
    done = [line.split("\\t") for line in others if line.split("\\t")[2] == "reserve"]
    if done and demo_app.note is note:
        demo_app.note = written
        with LEDGER.open("a") as ledger:
            for what, run, key, attempt, _, same in done:
                print(what, run, key, attempt, os.getpid(), same, sep="\\t", file=ledger)
    written(word)

demo_app.note = note
"""

OTHER_RESULT = """
from holdfast import App, workflow
from holdfast.cli.demo import demo_app

@workflow
async def fulfil(order: demo_app.Order) -> str:
    return (await demo_app.fulfil.spec.function(order)).replace("parcel", "brick")

app = App(workflows=[fulfil, demo_app.ship])
"""

FAILS = """
from holdfast import App, workflow
from holdfast.cli.demo import demo_app

@workflow
async def fulfil(order: demo_app.Order) -> str:
    await demo_app.fulfil.spec.function(order)
    raise ValueError("out of stock")

app = App(workflows=[fulfil, demo_app.ship])
"""


@pytest.mark.parametrize(
    ("module", "complaints"),
    [
        (RUNS_AGAIN, ["reserve had completed before the kill and ran again: 2 times in all, 1 before",
                      "reserve ran twice as the same attempt"]),
        (OTHER_RESULT, ["the result is 'shelf-1, payment-1, brick-1, told: email sms warehouse', and should be",
                        "'shelf-1, payment-1, parcel-1, told: email sms warehouse'"]),
        (FAILS, ["the result is 'RunFailed: ", "out of stock"]),
    ],
    ids=["completed step runs again", "other result", "run fails"],
)  # fmt: skip
def test_a_broken_promise_is_seen(place: Place, module: str, complaints: list[str]) -> None:
    """Promise: exit code 0 means that it held. Here real workers serve faulty apps, and the demo says so."""
    (place.modules / "broken.py").write_text(module)
    answer = place.run("--fast", "--seed", "1", app="broken:app")
    assert answer.returncode == 1, answer.stdout + answer.stderr
    shown = " ".join(answer.stdout.split())
    for complaint in complaints:
        assert complaint in shown, answer.stdout
    assert "WRONG" in shown
    assert "never ran again" not in shown
    assert not place.left_behind()


def test_a_worker_that_cannot_start_is_an_error(place: Place) -> None:
    """Contract: a sentence with what the worker said, exit code 1, nothing left."""
    answer = place.run("--fast", app="nowhere:app")
    assert answer.returncode == 1
    assert re.search(r"error: worker-1 ended by itself \(1\): error: no module 'nowhere'", answer.stderr)
    assert not place.left_behind()


NOTES = read_ledger(
    "begin\to\ta\t1\t7\tka\neffect\to\ta\t1\t7\tka\nend\to\ta\t1\t7\tka\nbegin\to\tb\t1\t7\tkb\neffect\to\tb\t1\t7\tkb\n"
    "begin\to\tb\t2\t8\tkb\neffect\to\tb\t2\t8\tkb\nend\to\tb\t2\t8\tkb\nbegin\to\thalf"
)
BEFORE = Picture(NOTES[:5], {("o", "a"): Recorded(1, completed=1), ("o", "b"): Recorded(1)})
AFTER = Picture(NOTES, {("o", "a"): Recorded(1, completed=1), ("o", "b"): Recorded(2, cut_off=1, completed=1)})
KILL = Kill(7, -9, BEFORE)
A, B = ("o", "a"), ("o", "b")


def with_notes(*notes: Note) -> Picture:
    return dataclasses.replace(AFTER, notes=(*AFTER.notes, *notes))


def with_steps(**steps: Recorded) -> Picture:
    return dataclasses.replace(AFTER, steps={**AFTER.steps, **{("o", key): step for key, step in steps.items()}})


def test_good_books_have_no_problem() -> None:
    """Contract: what the next test sees is the planted fault."""
    verdict = judge(KILL, AFTER, "r", "r", 9)
    assert not verdict.problems
    assert (BEFORE.completed, BEFORE.in_flight) == ([A], [B])
    assert [AFTER.count("effect", step) for step in (A, B)] == [1, 2]
    assert AFTER.in_flight == []


@pytest.mark.parametrize(
    ("kill", "end", "problem"),
    [
        (KILL, with_notes(Note("begin", "o", "a", 2, 8, "ka")), "a had completed before the kill and ran again"),
        (KILL, with_notes(Note("begin", "o", "b", 3, 8, "kb")), "b ran as attempt 3, after the attempt 2"),
        (KILL, with_notes(Note("begin", "o", "b", 2, 8, "kb")), "b ran twice as the same attempt"),
        (KILL, with_notes(Note("effect", "o", "b", 2, 8, "kx")), "b had a different idempotency key"),
        (KILL, with_notes(Note("begin", "o", "c", 1, 8, "kc")), "c ran, and the journal does not know it"),
        (KILL, with_notes(Note("end", "o", "b", 1, 7, "kb")), "the first worker kept working after its death"),
        (KILL, dataclasses.replace(AFTER, notes=NOTES[1:]), "the first worker kept working after its death"),
        (KILL, with_steps(c=Recorded(1, completed=1)), "c is recorded as completed and never happened"),
        (KILL, with_steps(b=Recorded(2)), "b is recorded as completed 0 times"),
        (KILL, with_steps(a=Recorded(2, completed=2)), "a is recorded as completed 2 times"),
        (Kill(7, 0, BEFORE), AFTER, "ended with exit code 0, not by SIGKILL"),
        (Kill(7, -9, Picture(NOTES[:5], {})), AFTER, "nothing had completed at the kill"),
        (Kill(7, -9, Picture(NOTES[:3], BEFORE.steps)), AFTER, "nothing was in flight at the kill"),
    ],
)
def test_a_planted_fault_in_the_books_is_found(kill: Kill, end: Picture, problem: str) -> None:
    """Contract: each check can fail."""
    assert any(problem in found for found in judge(kill, end, "r", "r", 9).problems)


# -- how it is ended ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "number", "code"),
    [
        ("takes the order", signal.SIGINT, 130),
        ("worker-2", signal.SIGINT, 130),
        ("takes over", signal.SIGTERM, 143),
    ],
    ids=["at work", "between two workers", "terminated"],
)
def test_an_interrupt_ends_everything_quietly(place: Place, text: str, number: signal.Signals, code: int) -> None:
    """Contract: Ctrl-C, which a terminal sends to the whole group, leaves no process, no file and no complaint."""
    with place.started("--fast", "--seed", "1") as process:
        shown = lines_until(process, text)
        os.killpg(process.pid, number)
        rest, complaint = process.communicate(timeout=PATIENCE)
        assert process.returncode == code
    assert not complaint
    assert "never ran again" not in rest
    assert all(is_gone(pid) for pid in WORKER.findall(shown + rest))
    assert not place.left_behind()


def test_a_reader_that_goes_away_ends_it_too(place: Place) -> None:
    """Contract: `holdfast demo | head -4` leaves nothing; nobody saw the end, so it is no success."""
    with place.started("--fast", "--seed", "1") as process:
        shown = lines_until(process, "takes the order")
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(PATIENCE) == 1
        assert process.stderr is not None
        assert not process.stderr.read()
    assert all(is_gone(pid) for pid in WORKER.findall(shown))
    assert not place.left_behind()


async def test_no_worker_outlives_a_killed_demo(place: Place) -> None:
    """Promise: even SIGKILL of the demo itself leaves no worker running."""
    with place.started("--seed", "1") as process:
        [pid] = WORKER.findall(await asyncio.to_thread(lines_until, process, "takes the order"))
        assert not is_gone(pid)
        process.kill()
        process.wait()
        await until(lambda: is_gone(pid))


# -- what the seed decides ---------------------------------------------------------------------------------------------


def test_the_seed_decides_the_point() -> None:
    """Contract: the same seed, the same plan; other seeds reach every point."""
    assert plan_for(7, is_fast=True) == plan_for(7, is_fast=True)
    assert {plan_for(seed, is_fast=False).point for seed in range(100)} == set(POINTS)
    keys = {name.rpartition(".")[2]: seed for name, seed in SEEDS.items()}
    assert {key: plan_for(seed, is_fast=True).point.key for key, seed in keys.items()} == {key: key for key in keys}


def test_beside_the_page_a_step_of_the_order_itself_is_cut_off() -> None:
    """Promise: the page of the order shows the crash, whatever seed is drawn."""
    drawn = {plan_for(new_seed(is_in_order=True), is_fast=False).point.key for _ in range(200)}
    assert drawn == {"charge", "warehouse"}
    assert len({plan_for(new_seed(is_in_order=False), is_fast=False).point.key for _ in range(200)}) > len(drawn)


def test_help_is_light(place: Place) -> None:
    """Contract: no store and no terminal library is loaded to show how the demo is used."""
    code = (
        "import sys; from holdfast.cli import main\n"
        "try:\n    main(['demo', '--help'])\nfinally:\n    print(*sys.modules, file=sys.stderr)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], env=place.env, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert answer.returncode == 0
    assert "--seed N" in answer.stdout
    assert not {"apsw", "rich", "holdfast.cli.demo.demo_story"} & set(answer.stderr.split())


@pytest.mark.parametrize("words", [["--seed", "x"], ["--seed", "-1"], ["more"]])
def test_wrong_usage(place: Place, words: list[str]) -> None:
    """Contract: exit code 2 and a sentence, before anything is started."""
    answer = place.run(*words)
    assert answer.returncode == 2
    assert answer.stderr.startswith("Usage: ")
    assert not place.left_behind()
