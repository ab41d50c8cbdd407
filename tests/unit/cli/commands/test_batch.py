"""`holdfast batch`: a workflow over the lines of a file, from the command line."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from holdfast.authoring.batch.batch_plan import Counts
from holdfast.cli.progress import Pace, progress_on, seconds_text
from holdfast.client.audit import this_user
from tests.unit.cli.conftest import Cli


def inputs(*lines: str) -> str:
    Path("in.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return "in.jsonl"


def results() -> list[dict[str, object]]:
    return [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]


def test_each_line_is_an_item_and_each_result_a_line(cli: Cli) -> None:
    """Promise: results in the order of the inputs; empty lines are none; progress goes to standard error."""
    file = inputs('{"name": "a"}', "", '["b"]')
    answer = cli("batch", "shop:app", "hello", "--inputs", file, "--out", "out.jsonl")
    assert (answer.code, answer.out) == (0, "")
    assert "2 of 2 done, 0 failed" in answer.err
    assert results() == [
        {"index": 0, "status": "completed", "result": "hello a"},
        {"index": 1, "status": "completed", "result": "hello b"},
    ]
    assert not Path("out.jsonl.part").exists()


def test_the_same_command_again_goes_on_and_runs_nothing_twice(cli: Cli) -> None:
    """Promise: the id follows from workflow and inputs, so a second call finds the batch of the first."""
    file = inputs('{"name": "a"}', '{"name": "b"}')
    words = ("batch", "shop:app", "hello", "--inputs", file, "--out", "out.jsonl", "--json")
    first = cli(*words).json
    Path("out.jsonl").unlink()
    again = cli(*words).json
    assert first == again
    assert (first["total"], first["completed"]) == (2, 2)
    assert len(results()) == 2
    assert len(cli.ok("runs", "--workflow", "hello").splitlines()) == 2
    assert cli("batch", "shop:app", "hello", "--inputs", inputs('{"name": "c"}'), "--out", "-").out == (
        '{"index":0,"status":"completed","result":"hello c"}\n'
    )
    assert len(cli.ok("runs", "--workflow", "holdfast.batch").splitlines()) == 2


def test_the_order_is_an_option(cli: Cli, caplog: pytest.LogCaptureFixture) -> None:
    """Promise: breadth-first from the command line, too; another word is wrong usage. Who started it is in the audit
    log."""
    caplog.set_level("INFO", "holdfast.audit")
    words = ("batch", "shop:app", "hello", "--inputs", inputs('["a"]', '["b"]'), "--out", "out.jsonl", "--json")
    made = cli(*words, "--order", "breadth").json
    assert made["completed"] == 2
    [plan] = [each for each in cli("show", made["batch"], "--json").json["exposed"].values() if "order" in each]
    assert plan["order"] == "breadth"
    [record] = [one.__dict__ for one in caplog.records if one.name == "holdfast.audit"]
    assert (record["actor"], record["verb"], record["run"]) == (this_user(), "start batch", made["batch"])
    assert cli(*words, "--order", "width").code == 2


def test_failed_items_are_in_the_results_and_in_the_exit_code(cli: Cli) -> None:
    """Promise: exit code 1, one sentence, and the reason of each in its line."""
    answer = cli("batch", "shop:app", "fails", "--inputs", inputs('["x"]'), "--out", "out.jsonl", "--json")
    assert answer.code == 1
    assert "1 of 1 items did not complete" in answer.err
    [line] = results()
    assert line["status"] == "failed"
    assert "ValueError: x" in str(line["error"])


def test_a_line_that_does_not_fit_starts_nothing(cli: Cli) -> None:
    """Promise: wrong usage, with file, line counted from 1, and path; no run is made, and no file written."""
    for line, reason in (('{"nme": "b"}', "no argument 'nme'"), ("{", "not JSON"), ("7", "object")):
        file = inputs('{"name": "a"}', "", line)
        answer = cli("batch", "shop:app", "hello", "--inputs", file, "--out", "out.jsonl")
        assert answer.code == 2
        assert "in.jsonl, line 3: " in answer.err
        assert reason in answer.err
    assert not Path("out.jsonl").exists()
    assert cli.ok("runs") == ""


def test_without_a_worker_others_do_the_work(cli: Cli) -> None:
    """Promise: --no-worker only starts and reads: a batch that others have finished is read."""
    file = inputs('{"name": "a"}')
    words = ("batch", "shop:app", "hello", "--inputs", file, "--out", "out.jsonl", "--id", "b")
    cli(*words)
    Path("out.jsonl").unlink()
    assert cli(*words, "--no-worker").code == 0
    assert len(results()) == 1


def test_progress_says_rate_and_time_left() -> None:
    """Promise: done, failed, rate, time left; without a rate nothing is guessed."""
    pace = Pace()
    assert pace.text(Counts(100), 0.0) == "0 of 100 done, 0 failed"
    assert pace.text(Counts(100, completed=18, failed=2), 10.0) == "20 of 100 done, 2 failed, 2/s, 40 s left"
    assert pace.text(Counts(100, completed=100), 10.0) == "100 of 100 done, 0 failed, 10/s"
    assert [seconds_text(x) for x in (7, 125, 7400)] == ["7 s", "2 min 5 s", "2 h 3 min"]


def test_a_pipe_gets_plain_lines_and_json_none() -> None:
    """Promise: no control characters in a pipe; nothing beside JSON."""
    stream = io.StringIO()
    with progress_on(stream, is_json=False) as bar:
        bar.show(Counts(2, completed=1))
        bar.show(Counts(2, completed=2))
    assert stream.getvalue() == "2 of 2 done, 0 failed, " + stream.getvalue().rpartition(", ")[2]
    with progress_on(stream := io.StringIO(), is_json=True) as bar:
        bar.show(Counts(2, completed=2))
    assert stream.getvalue() == ""
