"""Narrow terminals, no colour, no UTF-8, locked and forbidden files, Ctrl-C: in this process, command by command."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast.adapters.sqlite import connections
from holdfast.cli import root
from tests.unit.cli.conftest import Cli

READING = [
    ["runs"], ["show", "waits"], ["show", "bad"], ["show", "par"], ["follow", "bad"], ["workers", "--all"], ["doctor"],
    ["verify"], ["config"], ["migrate"], ["version"], ["init", "new-project"], ["pause", "waits"],
    ["signal", "waits", "x", "1"],
]  # fmt: skip
STYLE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
COPIED = re.compile(
    r"^  .*(Traceback|The above exception|File|await|raise|return|outcome|value|Error: |holdfast |pytest)|/"
)
IDS = [" ".join(words) for words in READING]


class Terminal(io.TextIOWrapper):
    """Standard output of somebody who looks at it."""

    def __init__(self, encoding: str) -> None:
        self.bytes = io.BytesIO()
        super().__init__(self.bytes, encoding=encoding, newline="", write_through=True)

    def isatty(self) -> bool:
        return True

    @property
    def lines(self) -> list[str]:
        self.flush()
        return self.bytes.getvalue().decode(self.encoding).splitlines()


@pytest.fixture
def looked_at(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Runs a command on a terminal of this process; gives the lines a person sees."""
    cli.start("fails", "text=" + "something rather long to say " * 5, "--id", "bad")
    cli.start("parent", "name=kid", "--id", "par")
    cli.finish("bad", "par")
    cli.start("approval", "name=é→", "--id", "waits", "--attribute", "tier=gold")

    def look(*words: str, columns: int = 80, encoding: str = "utf-8", **env: str) -> list[str]:
        for name, value in {"TERM": "xterm-256color", "COLUMNS": str(columns), **env}.items():
            monkeypatch.setenv(name, value)
        out, err = Terminal(encoding), Terminal(encoding)
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stdout", out)
            patched.setattr(sys, "stderr", err)
            with pytest.raises(SystemExit):
                root.run(words)
        return [*out.lines, *err.lines]

    return look


@pytest.mark.parametrize("words", READING, ids=IDS)
def test_nothing_is_wider_than_40_columns(looked_at: Callable[..., list[str]], words: list[str]) -> None:
    """Contract: whatever is shown fits, except what people copy: tracebacks, paths, commands."""
    shown = [STYLE.sub("", line) for line in looked_at(*words, columns=40)]
    assert shown
    assert not any(re.search("[\x00-\x1f]", line) for line in shown), shown
    assert not [line for line in shown if len(line) > 40 and not COPIED.search(line)], shown


@pytest.mark.parametrize("words", READING, ids=IDS)
def test_a_terminal_without_utf8_gets_escapes(looked_at: Callable[..., list[str]], words: list[str]) -> None:
    """Contract: nothing fails for want of a character."""
    shown = looked_at(*words, encoding="ascii")
    assert shown
    assert not any("unexpected error" in line for line in shown), shown
    if words == ["show", "waits"]:
        assert any("\\xe9\\u2192" in line for line in shown), shown


def test_colours_are_for_terminals_that_want_them(looked_at: Callable[..., list[str]]) -> None:
    """Contract: colour on a terminal, none with NO_COLOR or TERM=dumb, none in a pipe."""
    assert any("\x1b[3" in line for line in looked_at("runs"))
    assert not any("\x1b[3" in line for line in looked_at("runs", NO_COLOR="1"))
    assert not any("\x1b[3" in line for line in looked_at("runs", TERM="dumb"))


def test_an_error_is_folded_on_a_terminal(looked_at: Callable[..., list[str]]) -> None:
    lines = [STYLE.sub("", line) for line in looked_at("show", "nowhere", columns=60)]
    assert lines[0].startswith("error: no run 'nowhere' in")
    assert all(line.startswith("       ") for line in lines[1:])


@pytest.mark.parametrize("words", [[], ["flow"]], ids=["holdfast", "flow"])
def test_no_command_at_all_gets_the_list_of_them(cli: Cli, words: list[str]) -> None:
    """Promise: who types only the name reads the help, as help, and the exit code says that something was missing."""
    answer = cli(*words)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == cli.ok(*words, "--help")


def test_settings_are_a_table_at_80_columns_and_none_is_cut(looked_at: Callable[..., list[str]], cli: Cli) -> None:
    """Promise: `holdfast config` folds what is too long for its column, and every value and origin can be read."""
    url = f"sqlite:///{'far/' * 12}away.db"
    lines = [STYLE.sub("", line) for line in looked_at("config", HOLDFAST_URL=url, HOLDFAST_UPKEEP_SNAPSHOT_EVERY="7")]
    header = next(line for line in lines if line.startswith("KEY"))
    value, origin = header.index("VALUE"), header.index("FROM")
    assert all(len(line) <= 80 for line in lines), lines
    assert url in "".join(line[value : origin - 2].rstrip() for line in lines)
    assert "$HOLDFAST_UPKEEP_SNAPSHOT_EVERY" in "".join(line[origin:] for line in lines)


def test_a_terminal_without_utf8_gets_marks_it_can_show(looked_at: Callable[..., list[str]]) -> None:
    """Promise: what we put between and after texts ourselves is plain where there is no UTF-8."""
    looked_at("pause", "waits", "--reason", "because there is something rather long to say about it")
    cut = looked_at("runs", columns=64, encoding="ascii")
    assert any(line.endswith("...") and len(STYLE.sub("", line)) == 64 for line in cut), cut
    stacked = looked_at("runs", columns=40, encoding="ascii")
    assert any(" - approval - " in STYLE.sub("", line) for line in stacked), stacked
    assert not any("\\u2026" in line or "\\xb7" in line for line in [*cut, *stacked])


# -- files -------------------------------------------------------------------------------------------------------------


def test_a_store_that_another_process_keeps_locked(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract: after some patience a sentence, and nothing is written; who only reads is not disturbed."""
    cli.start("hello", "name=x", "--id", "r")
    monkeypatch.setattr(connections, "PATIENCE", 0.1)
    other = apsw.Connection(str(cli.folder / "store.db"))
    other.execute("BEGIN IMMEDIATE")
    try:
        answer = cli("start", "shop:app", "hello", "name=x", "--id", "s")
        assert answer.code == 1
        assert "another process kept the store locked" in answer.error
        assert cli.ok("runs").startswith("r\t")
    finally:
        other.execute("ROLLBACK")
        other.close()
    assert len(cli.ok("runs").splitlines()) == 1


def test_no_permission_is_a_sentence(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contract: the folder and what to do. (A superuser is refused nothing: the answer is put in its place.)"""
    cli.start("hello", "name=x", "--id", "r")
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    answer = cli("runs")
    assert answer.code == 1
    assert "no permission to write in the folder" in answer.error

    def forbidden(path: Path, *_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "mkdir", forbidden)
    assert cli("init", "there").error == "error: Permission denied: there"


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda path: path.mkdir(), ["it is a folder"]),
        (lambda path: path.write_text("no database at all, but longer than a header of a hundred bytes. " * 3),
         ["not a SQLite database"]),
        (lambda path: apsw.Connection(str(path)).execute("CREATE TABLE mine (a)"), ["another program"]),
    ],
    ids=["folder", "text", "foreign"],
)  # fmt: skip
@pytest.mark.parametrize("command", [["runs"], ["migrate"], ["doctor"], ["start", "shop:app", "hello", "name=x"]])
def test_a_file_that_is_no_store(cli: Cli, made: Callable[[Path], Any], words: list[str], command: list[str]) -> None:
    made(cli.folder / "store.db")
    answer = cli(*command)
    assert answer.code == 1
    assert all(word in answer.out + answer.err for word in words), answer


# -- Ctrl-C ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [*READING, ["start", "shop:app", "hello", "name=x"], ["cancel", "r"], ["demo"]])
def test_an_interrupt_ends_every_command_quietly(cli: Cli, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    """Contract: exit code 130 and not a word, wherever it comes."""

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    for place in (
        "asyncio.run",
        "holdfast.cli.commands.config.load",
        "holdfast.cli.commands.init._write",
        "holdfast.cli.commands.version.platform.python_version",
    ):
        monkeypatch.setattr(place, interrupted)
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the coroutine that was not begun
        answer = cli(*words)
    assert (answer.code, answer.out, answer.err) == (130, "", "")


def test_an_interrupt_while_the_app_is_imported(cli: Cli) -> None:
    (cli.folder / "slow.py").write_text("raise KeyboardInterrupt")
    answer = cli("start", "slow:app", "hello")
    assert (answer.code, answer.out, answer.err) == (130, "", "")
