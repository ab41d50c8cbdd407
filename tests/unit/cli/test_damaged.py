"""What the commands say of rows that cannot be read, and of times that no calendar holds."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.damage import write_sqlite
from tests.unit.cli.conftest import Cli

FAR = 2**62


@pytest.mark.parametrize(
    ("column", "value"),
    [("deadline", FAR), ("doing", b"{{"), ("status", "{{"), ("created_at", -FAR), ("note", b"\xff")],
    ids=str,
)
def test_a_damaged_run_is_named_and_can_be_ended(cli: Cli, column: str, value: Any) -> None:
    """Promise: `runs`, `show`, `verify` and `doctor` go on and name it; `pause` and `kill` work."""
    for name in ("good-1", "bad", "good-2"):
        cli.start("hello", "name=x", "--id", name)
    write_sqlite(cli.folder / "store.db", "runs", column, value, ("id", "bad"))
    lines = {line.split("\t")[0]: line.split("\t") for line in cli.ok("runs").splitlines()}
    assert {name: line[1] for name, line in lines.items()} == {
        "good-1": "pending",
        "bad": "damaged",
        "good-2": "pending",
    }
    assert lines["bad"][-1].startswith(f"damaged: {column} is ")
    shown = cli.ok("show", "bad")
    assert shown.startswith("run bad damaged: ")
    verified = cli("verify")
    assert (verified.code, verified.out.splitlines()[-1]) == (1, "3 runs, 3 journal rows: 1 problem")
    assert f"run bad: its row is damaged: {column} is " in verified.out
    examined = cli("doctor")
    assert examined.code == 1
    assert f"run bad: {column} is " in examined.out
    cli.ok("pause", "bad")
    cli.ok("kill", "bad")
    assert cli("show", "bad", "--json").json["status"] == "cancelled"
    cli.finish("good-1")
    cli.finish("good-2")


@pytest.mark.parametrize(
    "option",
    [
        ("--deadline", "9999-12-31T23:59:59-12:00"),
        ("--deadline", "0001-01-01T00:00:00+14:00"),
        ("--deadline", "8000y"),
        ("--delay", "8000y"),
        ("--delay", "900000y"),
    ],
    ids=str,
)
def test_a_time_that_no_calendar_holds_is_refused(cli: Cli, option: tuple[str, str]) -> None:
    """Promise: wrong usage, said in a sentence, and no run."""
    cli.start("hello", "name=x", "--id", "good")
    answer = cli("start", "shop:app", "hello", "name=x", "--id", "bad", *option)
    assert answer.code in {1, 2}
    assert "unexpected error" not in answer.err
    assert any(word in answer.err for word in ("outside the years", "after the year 9998", "too long")), answer.err
    assert [line.split("\t")[0] for line in cli.ok("runs").splitlines()] == ["good"]
