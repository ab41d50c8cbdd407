"""`show` always answers: of a run that is compacted or damaged, what is known, what is not, and what to do."""

from __future__ import annotations

import apsw
import pytest

from tests.support.damage import write_sqlite
from tests.unit.cli.conftest import Cli


def damage(cli: Cli, run: str, ordinal: int, body: bytes = b"[{{") -> None:
    """Bytes that are no events, in one row of a journal."""
    connection = apsw.Connection(str(cli.folder / "store.db"))
    ((seq,),) = connection.execute(
        "SELECT seq FROM events JOIN runs ON runs.no = events.run WHERE runs.id = ? AND ordinal = ?", (run, ordinal)
    )
    connection.close()
    write_sqlite(cli.folder / "store.db", "events", "body", body, ("seq", seq))


@pytest.mark.parametrize("words", [(), ("--json",)], ids=["people", "programs"])
def test_a_compacted_run_is_shown(cli: Cli, words: tuple[str, ...]) -> None:
    """Promise: its input and result are there, and its timeline begins where the journal begins."""
    cli.start("approval", "name=ann", "--id", "r")
    cli.until_waiting("r", "waiting for signal approved")
    cli.ok("compact", "r")
    said = cli.ok("show", "r", *words)
    assert "ann" in said
    assert "waiting for signal approved" in said
    assert "compacted" in said
    cli.ok("signal", "r", "approved", "true")
    cli.finish("r")
    assert "ann: True" in cli.ok("show", "r", *words)


def test_a_compacted_run_has_its_parts(cli: Cli) -> None:
    cli.start("approval", "name=ann", "--id", "r")
    cli.until_waiting("r", "waiting for signal approved")
    cli.ok("compact", "r")
    shown = cli("show", "r", "--json").json
    assert (shown["input"], shown["is_compacted"], shown["problems"]) == ({"name": "ann"}, True, [])
    assert shown["exposed"] == {"progress": "asked"}
    assert shown["timeline"][0]["kind"] == "compacted"
    [first] = [event for event in shown["events"] if event["type"] == "compacted"]
    assert set(first["data"]) == {"rows"}


@pytest.mark.parametrize("ordinal", [1, 2, 3])
def test_a_run_with_an_unreadable_row_is_shown(cli: Cli, ordinal: int) -> None:
    """Promise: exit code 0; the row is named, with the command that says more; the rows that hold are shown."""
    cli.start("approval", "name=ann", "--id", "r")
    cli.until_waiting("r", "waiting for signal approved")
    damage(cli, "r", ordinal)
    said = cli.ok("show", "r")
    assert f"row {ordinal} does not decode" in said.replace("\n", " ")
    assert "holdfast verify r" in " ".join(said.split())
    shown = cli("show", "r", "--json").json
    assert any(f"row {ordinal} does not decode" in problem for problem in shown["problems"])
    assert ordinal not in {event["ordinal"] for event in shown["events"]}
    assert {1, 2, 3} - {ordinal} <= {event["ordinal"] for event in shown["events"]}


def test_values_are_hidden_if_nobody_can_say_which_are_secret(cli: Cli) -> None:
    """Promise: without its start a run may be a flow's with secrets: no payload of it is shown."""
    cli.start("hello", "name=hunter2", "--id", "r")
    cli.finish("r")
    assert "hunter2" in cli.ok("show", "r", "--json")
    damage(cli, "r", 1)
    for words in ((), ("--json",)):
        said = cli.ok("show", "r", *words)
        assert "hunter2" not in said
        assert "secret" in said


def test_a_run_without_a_journal_is_shown(cli: Cli) -> None:
    """Promise: the row is what is known; what is missing is said."""
    cli.start("hello", "name=x", "--id", "r")
    cli.start("hello", "name=x", "--id", "later")
    connection = apsw.Connection(str(cli.folder / "store.db"))
    connection.execute("DELETE FROM events WHERE run = (SELECT no FROM runs WHERE id = 'r')")
    connection.close()
    said = cli.ok("show", "r")
    assert said.startswith("run r pending")
    assert "its journal is missing" in said
    assert cli("show", "r", "--json").json["timeline"] == []


def test_a_lost_payload_is_named(cli: Cli) -> None:
    """Promise: everything else is shown."""
    cli.start("hello", f"name={'x' * 200_000}", "--id", "r")
    connection = apsw.Connection(str(cli.folder / "store.db"))
    connection.execute("DELETE FROM blobs")
    connection.close()
    said = cli.ok("show", "r")
    assert "its input cannot be read: no blob" in " ".join(said.split())


def test_an_unknown_run_gets_a_hint(cli: Cli) -> None:
    cli.start("hello", "name=x", "--id", "order-42")
    for command in (["show"], ["cancel"], ["follow"], ["compact"]):
        answer = cli(*command, "order-24")
        assert (answer.code, "Did you mean order-42?" in answer.error) == (1, True)
