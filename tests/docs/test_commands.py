"""Every command that README.md, docs/ and `holdfast init` show is one that the program takes, word for word.

The commands of the tutorial are run (test_tutorial.py), those of a project's first day too (test_cli_commands.py); here
all of them are parsed as the program parses them: names, options, number of arguments, types.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from holdfast.cli.commands.init import NEXT
from holdfast.cli.root import COMMANDS, root
from holdfast.config import load
from tests.docs.test_blocks import ROOT, Block, blocks_of

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHELL = {"sh", "bash", "console"}
ENDS = {"|", "||", "&", "&&", ";", ">", "<", "2>"}
FILE = re.compile(r"\w+\.(json|jsonl|yaml)")
INLINE = re.compile(r"`holdfast ([a-z][a-z-]*)")


def said(line: str) -> list[str] | None:
    """The words after `holdfast` in a line of a shell, or None if it calls something else."""
    words = shlex.split(line.removeprefix("$ "), comments=True)
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words.pop(0)
    end = next((number for number, word in enumerate(words) if word in ENDS), len(words))
    return words[1:end] if words[:1] == ["holdfast"] else None


def lines_of(block: Block) -> Iterator[tuple[str, list[str]]]:
    for number, line in enumerate(block.text.replace("\\\n", " ").split("\n")):
        if (words := said(line)) is not None:
            yield f"{block.page.relative_to(ROOT)}:{block.line + number}", words


def shown() -> list[tuple[str, list[str]]]:
    found = [("holdfast init", words) for line in {line: None for _, line in NEXT} if (words := said(line)) is not None]
    for page in PAGES:
        for block in blocks_of(page):
            if set(block.info[:1]) & SHELL:
                found += lines_of(block)
    return found


def parse(words: list[str]) -> None:
    """As the program does it, up to the point where it would do something."""
    command: click.Command = root
    with click.Context(root, info_name="holdfast") as context:
        while isinstance(command, click.Group):
            _, found, words = command.resolve_command(context, words)
            assert found is not None
            command = found
        command.make_context(command.name, words, parent=context).close()


@pytest.mark.parametrize(("place", "words"), [pytest.param(*one, id=f"{one[0]}-{one[1][0]}") for one in shown()])
def test_a_command_that_is_shown_is_taken(
    place: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise: no page shows a command, an option or a number of arguments that the program refuses."""
    monkeypatch.delenv("HOLDFAST_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    for word in words:
        if FILE.fullmatch(word):
            (tmp_path / word).touch()
    try:
        parse(words)
    except click.UsageError as error:
        pytest.fail(f"{place}: holdfast {' '.join(words)}: {error.format_message()}", pytrace=False)


def test_commands_are_found_and_wrong_ones_are_refused() -> None:
    assert len(shown()) > 50
    assert said("HOLDFAST_URL=x holdfast runs | head -1  # two") == ["runs"]
    assert said("$ python example.py") is None
    for words in (["strat"], ["runs", "--lmit", "3"], ["flow", "chekc", "a"], ["show"], ["runs", "--limit", "0"]):
        with pytest.raises(click.UsageError):
            parse(words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_command_that_is_mentioned_is_there(page: Path) -> None:
    """Promise: no page speaks of a command that does not exist."""
    mentioned = set(INLINE.findall(page.read_text(encoding="utf-8")))
    assert mentioned <= set(COMMANDS), mentioned - set(COMMANDS)


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(block, id=block.place)
        for page in PAGES
        for block in blocks_of(page)
        if block.info[:1] == ("toml",) and not block.text.startswith("# pyproject.toml")
    ],
)
def test_a_configuration_that_is_shown_is_accepted(block: Block, tmp_path: Path) -> None:
    """Promise: every key of a `holdfast.toml` on a page is known, typed and no contradiction."""
    (tmp_path / "holdfast.toml").write_text(block.text)
    assert load(folder=tmp_path, environ={}).file == tmp_path / "holdfast.toml"
