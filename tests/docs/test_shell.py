"""Shell blocks of pages that have an app of their own are run, in a folder with the files of that page.

Commands of ours run in this process. A worker runs beside them for as long as the page lasts, so a line that starts a
server (`worker`, `dev`, `dashboard`) is only parsed, by test_commands.py. Files that a page speaks of and does not show
are made here.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from holdfast.cli.root import run
from holdfast.cli.targets import load_app
from tests.docs.test_blocks import ROOT, blocks_of
from tests.docs.test_commands import SHELL, said

SERVERS = {"worker", "dev", "dashboard", "demo"}


@dataclass(frozen=True)
class Scene:
    """A page whose commands are run: the app it is about, and files that it only mentions."""

    page: str
    app: str
    files: Mapping[str, str] = field(default_factory=dict[str, str])


SCENES = [
    Scene("docs/guides/running.md", "service:app"),
    Scene("docs/guides/flows.md", "app:app", {"orders.jsonl": '{"id": 1, "items": ["a"]}\n'}),
]


def commands(page: Path) -> Iterator[list[str]]:
    for block in blocks_of(page):
        if set(block.info[:1]) & SHELL:
            for line in block.text.replace("\\\n", " ").split("\n"):
                words = said(line)
                if words is not None and not set(words) & SERVERS:
                    yield words


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.page)
def test_what_a_page_says_to_type_works(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Promise: every command of the page exits with 0 in a folder with the files of that page."""
    page = ROOT / scene.page
    for name, text in scene.files.items():
        (tmp_path / name).write_text(text)
    for block in blocks_of(page):
        if block.name is not None and not block.name.startswith("test_"):
            (tmp_path / block.name).write_text(block.text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for variable in ("HOLDFAST_URL", "HOLDFAST_CONFIG"):
        monkeypatch.delenv(variable, raising=False)
    before = set(sys.modules)

    async def play() -> None:
        async with load_app(scene.app, tmp_path).worker(poll="20ms"):
            for words in commands(page):
                code = await asyncio.to_thread(_typed, words)
                said_there = capsys.readouterr()
                assert code == 0, f"holdfast {' '.join(words)}: {said_there.err or said_there.out}"

    try:
        asyncio.run(play())
    finally:
        for name in set(sys.modules) - before:
            if getattr(sys.modules[name], "__file__", "") and str(tmp_path) in str(sys.modules[name].__file__):
                del sys.modules[name]


def _typed(words: list[str]) -> object:
    with pytest.raises(SystemExit) as end:
        run(words)
    return end.value.code


def test_a_reader_can_run_the_order_of_the_readme_twice(tmp_path: Path) -> None:
    """Promise: as the page says, the second time nothing is done again, and the same is printed."""
    [order] = [block for block in blocks_of(ROOT / "README.md") if block.name == "order.py"]
    (tmp_path / "order.py").write_text(order.text)
    first, second = (
        subprocess.run([sys.executable, "order.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
        for _ in range(2)
    )
    assert (first.returncode, second.returncode) == (0, 0), second.stderr
    assert first.stdout == second.stdout
    assert "shipped as #42" in first.stdout
