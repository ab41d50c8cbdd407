"""`holdfast runs`: which runs, in which order, and how many."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.cli.conftest import Cli, change


def ids(text: str) -> list[str]:
    return [line.split("\t")[0] for line in text.splitlines()]


def test_statuses_times_and_order_choose_runs(cli: Cli) -> None:
    """Contract: several statuses by comma or repeated; --since from then on, --until before; --sort turns it around."""
    cli.start("fails", "text=boo", "--id", "bad")
    cli.finish("bad")
    for name in ("old", "new"):
        cli.start("hello", "name=x", "--id", name)
    cli.ok("pause", "old")
    change(cli, "UPDATE runs SET created_at = created_at - 7200000000 WHERE id = 'old'")
    assert ids(cli.ok("runs")) == ["new", "bad", "old"]
    assert ids(cli.ok("runs", "--sort", "created")) == ["old", "bad", "new"]
    assert ids(cli.ok("runs", "--status", "failed,paused")) == ["bad", "old"]
    assert ids(cli.ok("runs", "--status", "failed", "--status", "pending")) == ["new", "bad"]
    assert ids(cli.ok("runs", "--since", "1h")) == ["new", "bad"]
    assert ids(cli.ok("runs", "--until", "1h")) == ["old"]
    assert ids(cli.ok("runs", "--since", "2020-01-01T00:00Z", "--prefix", "o")) == ["old"]


def test_a_failed_run_shows_its_error_on_its_line(cli: Cli) -> None:
    cli.start("fails", "text=no money\nsecond", "--id", "bad")
    cli.finish("bad")
    [line] = cli.ok("runs", "--status", "failed").splitlines()
    assert line.endswith("ValueError: no money second")


def test_of_a_failed_step_a_terminal_shows_the_error_first(cli: Cli, on_a_terminal: Callable[[], None]) -> None:
    """Promise: 80 columns show what went wrong, not only that a step failed."""
    cli.start("fails", "text=no money", "--id", "bad")
    cli.finish("bad")
    on_a_terminal()
    shown = cli.ok("runs", "--status", "failed")
    assert "step breaks: ValueError: no" in shown
    assert "failed after" not in shown


def test_runs_are_found_by_their_error(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract: failed runs whose error contains the text; where the search stops, it says how far it got."""
    for name, text in (("r1", "connection refused"), ("r2", "no money"), ("r3", "Refused again")):
        cli.start("fails", f"text={text}", "--id", name)
        cli.finish(name)
    assert ids(cli.ok("runs", "--error", "refused")) == ["r3", "r1"]
    assert ids(cli.ok("runs", "--error", "refused", "--prefix", "r1")) == ["r1"]
    assert "leave out --error" in cli("runs", "--error", "refused", "--count").error
    monkeypatch.setattr("holdfast.client.run_errors.LOOKED", 1)
    monkeypatch.setattr("holdfast.cli.commands.runs.MOST_LOOKED", 2)
    stopped = cli("runs", "--error", "connection")
    assert (ids(stopped.out), stopped.err.partition("more: --after ")[0]) == ([], "looked at 2 failed runs; ")
    cursor = stopped.err.rpartition(" ")[2].strip().strip("'")
    assert ids(cli.ok("runs", "--error", "connection", "--after", cursor)) == ["r1"]


def test_runs_are_counted_by_status(cli: Cli) -> None:
    """Contract: those that the filter lets through; statuses without runs are left out."""
    for name in "ab":
        cli.start("hello", "name=x", "--id", name)
    cli.ok("pause", "a")
    assert cli.ok("runs", "--count") == "pending\t1\npaused\t1\n"
    assert cli("runs", "--count", "--status", "paused", "--json").json == {"counts": {"paused": 1}, "capped": []}


def test_a_question_makes_no_store_of_an_empty_file(cli: Cli) -> None:
    """Contract: an empty file stays empty, and the error says what would make a store of it."""
    file = cli.folder / "empty.db"
    file.touch()
    for words in (["runs"], ["show", "r"], ["cancel", "r"], ["space"], ["verify"]):
        answer = cli(*words, "--url", f"sqlite:///{file}")
        assert answer.code == 1
        assert "is empty" in answer.error
        assert file.stat().st_size == 0


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("list", "runs"), ("ls", "runs"), ("ps", "workers"), ("status", "show RUN"), ("logs", "follow RUN"),
     ("run", "start"), ("shwo", "show")],
)  # fmt: skip
def test_the_command_of_another_tool_suggests_ours(cli: Cli, typed: str, meant: str) -> None:
    answer = cli(typed)
    assert answer.code == 2
    assert meant in answer.error


def test_in_a_pipe_space_says_of_each_line_what_it_is(cli: Cli) -> None:
    """Contract: the first field names the kind of line, and sizes are numbers of bytes."""
    cli.start("hello", "name=x", "--id", "r")
    lines = [line.split("\t") for line in cli.ok("space").splitlines()]
    assert {line[0] for line in lines} == {
        "store", "size", "free", "table", "run", "removable runs", "removable blobs",
    }  # fmt: skip
    assert all(part.isdigit() for line in lines if line[0] == "table" for part in line[2:])
    assert next(line for line in lines if line[0] == "run")[1:3] == ["r", "1"]


def test_help_names_the_values(cli: Cli) -> None:
    text = " ".join(cli.ok("runs", "--help").split())
    assert "pending, running, paused, completed, failed, cancelled" in text
    assert "status, workflow, version, queue" in " ".join(cli.ok("cancel", "--help").split())
