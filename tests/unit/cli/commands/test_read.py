"""`read`: what a run sent to a stream, for people, for programs, and as plain text."""

from __future__ import annotations

import asyncio
import json

import pytest

from holdfast import App, Retry, Stream, current, step, workflow
from tests.unit.cli.conftest import Cli

tokens = Stream[str]("tokens")


@step(retry=Retry(2, first="1ms"))
async def say(words: list[str]) -> None:
    for word in words:
        tokens.send(word)
    if current().attempt == 1:
        raise ValueError("again")


@workflow
async def speech(words: list[str]) -> None:
    await say(words)
    tokens.send("end")


@pytest.fixture
def told(cli: Cli) -> Cli:
    async def speak() -> None:
        app = App(cli.url, workflows=[speech])
        async with app.worker():
            await (await app.start(speech(["Hel", "lo\n"]), id="r")).result(timeout="60s")
        await app.close()

    asyncio.run(speak())
    return cli


def test_a_line_for_each_part(told: Cli) -> None:
    """Promise: offset, step and attempt, value; what was superseded says so. From an offset, only what follows."""
    lines = [line.split("  ") for line in told.ok("read", "r", "tokens", "--url", told.url).splitlines()]
    assert lines == [
        ["0", "say #1 (superseded)", '"Hel"'],
        ["1", "say #1 (superseded)", '"lo\\n"'],
        ["2", "say #2", '"Hel"'],
        ["3", "say #2", '"lo\\n"'],
        ["4", "workflow", '"end"'],
    ]
    rest = told.ok("read", "r", "tokens", "--url", told.url, "--after", "2").splitlines()
    assert [line.split("  ")[0] for line in rest] == ["3", "4"]


def test_an_object_for_each_part(told: Cli) -> None:
    """Promise: all that is known of it; --follow ends with the run; --completed leaves the rest out."""
    said = told.ok("read", "r", "tokens", "--url", told.url, "--json", "--follow", "--completed")
    assert [json.loads(line) for line in said.splitlines()] == [
        {"offset": 2, "step": "say", "attempt": 2, "state": "completed", "value": "Hel"},
        {"offset": 3, "step": "say", "attempt": 2, "state": "completed", "value": "lo\n"},
        {"offset": 4, "step": "", "attempt": 1, "state": "completed", "value": "end"},
    ]


def test_plain_text(told: Cli) -> None:
    assert told.ok("read", "r", "tokens", "--url", told.url, "--text", "--completed") == "Hello\nend"


def test_nothing_there(told: Cli) -> None:
    """Promise: says which streams there are."""
    answer = told("read", "r", "log", "--url", told.url)
    assert (answer.code, answer.out) == (0, "")
    assert "nothing was sent to stream 'log'. Its streams: tokens (5 parts)" in answer.err
    assert "no such parts after offset 9" in told("read", "r", "tokens", "--url", told.url, "--after", "9").err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["nobody", "tokens"], 1, "no run"),
        (["r", "tokens", "--json", "--text"], 2, "exclude each other"),
        (["r", "tokens", "--after", "-1"], 2, "--after"),
        (["r", "x" * 300], 2, "NAME"),
    ],
)
def test_wrong_uses(told: Cli, words: list[str], code: int, said: str) -> None:
    answer = told("read", *words, "--url", told.url)
    assert answer.code == code
    assert said in answer.err
