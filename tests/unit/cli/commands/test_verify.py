"""`holdfast verify`, and `messages drop` for what it names."""

from __future__ import annotations

import pytest

from tests.unit.cli.conftest import Cli, change


def test_a_sound_store_is_verified(cli: Cli) -> None:
    """Contract: every run, open and ended, its rows counted; exit code 0."""
    cli.start("fails", "text=boo", "--id", "bad")
    cli.finish("bad")
    cli.start("parent", "name=x", "--id", "par")
    cli.finish("par")
    cli.start("hello", "name=x", "--id", "open")
    whole = cli("verify", "--json")
    assert (whole.code, whole.json["runs"], whole.json["problems"]) == (0, 4, [])
    assert cli.ok("verify").startswith(f"4 runs, {whole.json['rows']} journal rows: no problems")
    one = cli("verify", "open", "--json").json
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
    assert verdict.endswith("1 problem")


def test_a_damaged_message_is_named_and_dropped(cli: Cli) -> None:
    """Contract: `verify` names its number, `messages drop` drops it, and then there are no problems."""
    cli.start("hello", "name=x", "--id", "open")
    cli.ok("signal", "open", "go", "7")
    change(cli, "UPDATE inbox SET body = CAST(replace(body, '7', '8') AS BLOB)")
    assert "run open: message 1 in its inbox was changed or damaged" in cli("verify").out
    assert cli("messages", "drop", "open", "1", "--json").json == {"run": "open", "message": 1, "told_again": False}
    assert cli("verify").code == 0
    assert "message 1 dropped" in cli.ok("messages", "drop", "open", "1", "--reason", "again")
    assert cli("messages", "drop", "open", "2").code == 1


def test_pages_are_followed(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.cli.commands import verify

    monkeypatch.setattr(verify, "PAGE", 2)
    for number in range(5):
        cli.start("hello", "name=x", "--id", f"r{number}")
    assert cli("verify", "--json").json["runs"] == 5
