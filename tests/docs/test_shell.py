"""Every shell block of README.md and docs/ is run, in a folder with the files of its page (`scenes`).

Commands of ours run in this process, a worker beside them. A command that serves until it is stopped (`worker`, `dev`,
`dashboard`) is started as a process, stopped when it has said its first word, and has to end well. Other commands are
bash's. A fence with `no-run: REASON` after its language is not run; test_commands.py parses it all the same.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast import App
from holdfast.cli.root import run
from holdfast.cli.targets import load_app
from tests.docs import scenes
from tests.docs.scenes import SCENES, Scene
from tests.docs.test_blocks import ROOT, Block, blocks_of
from tests.docs.test_commands import ENDS, PAGES, SHELL, said
from tests.docs.test_tutorial import environment

SERVERS = {"worker": "", "dev": "--http 127.0.0.1:0", "dashboard": "--http 127.0.0.1:0"}
"""Commands that serve, and what lets several of them run on one machine."""

TOLD = {"docs/tutorial/README.md": "test_tutorial.py", "README.md": "below", "docs/guides/command-line.md:19": "below"}
"""What is run elsewhere: as a whole, in order."""

NOT_RUN = re.compile(r"no-run: \S.{8,}")
CURSOR = "CURSOR"
SECONDS = 150


def shell_blocks() -> list[Block]:
    return [block for page in PAGES for block in blocks_of(page) if set(block.info[:1]) & SHELL]


def is_run(block: Block) -> bool:
    return "no-run:" not in block.info


def lines_of(block: Block) -> list[str]:
    """The commands of a block. In a `console` those with a prompt: the others are what they print."""
    whole = block.text.replace("\\\n", " ").split("\n")
    if block.info[0] == "console":
        whole = [line for line in whole if line.startswith("$ ")]
    return [line.removeprefix("$ ").strip() for line in whole if line.strip() and not line.startswith("#")]


def plays() -> Iterator[tuple[Scene, Block, list[str]]]:
    """What is typed in one folder: the lines of all blocks of a page that is told, else one line."""
    for page, scene in SCENES.items():
        blocks = [x for x in blocks_of(ROOT / page) if set(x.info[:1]) & SHELL and is_run(x) and x.place not in TOLD]
        if scene.is_told:
            yield scene, blocks[0], [line for block in blocks for line in lines_of(block)]
        else:
            yield from ((scene, block, [line]) for block in blocks for line in lines_of(block))


@pytest.mark.parametrize("block", [pytest.param(block, id=block.place) for block in shell_blocks()])
def test_a_shell_block_is_run_or_says_why_it_is_not(block: Block) -> None:
    """Promise: no block of a page is left out in silence."""
    page = str(block.page.relative_to(ROOT))
    if is_run(block):
        assert page in SCENES or page in TOLD, f"{block.place}: nothing runs it; see tests/docs/scenes.py"
    else:
        assert NOT_RUN.search(" ".join(block.info)), f"{block.place}: say why after no-run:"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_block_of_commands_says_that_it_is_one(page: Path) -> None:
    """Promise: a command in a block without a language would be checked by nothing."""
    for block in blocks_of(page):
        if not block.info:
            assert not re.search(r"^(\$ |holdfast |python3? |pip )", block.text, re.MULTILINE), block.place


@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    ("scene", "block", "lines"), [pytest.param(*play, id=f"{play[1].place}-{play[2][0][:60]}") for play in plays()]
)
def test_what_a_page_says_to_type_works(
    scene: Scene,
    block: Block,
    lines: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Promise: every command exits with 0 in a folder with the files of its page."""
    own = {x.name: x.text for x in blocks_of(block.page) if x.name is not None and not x.name.startswith("test_")}
    for name, text in {**own, **scene.files}.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for variable in ("HOLDFAST_URL", "HOLDFAST_CONFIG"):
        monkeypatch.delenv(variable, raising=False)
    before = set(sys.modules)

    async def play() -> None:
        app = load_app(scene.app, tmp_path)
        async with app.worker(poll="20ms"):
            await scenes.all_is_declared(app)
            for line in lines:
                words = said(line)
                await scene.before(" ".join(words or []))(app)
                typed = line.replace(CURSOR, await _cursor(app)) if CURSOR in line else line
                monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(scenes.ORDER.encode())))
                code, text = await asyncio.to_thread(_typed, typed, capsys)
                assert code == 0, f"{block.place}: {line}: {text}"

    try:
        asyncio.run(play())
    finally:
        for name in set(sys.modules) - before:
            if getattr(sys.modules[name], "__file__", "") and str(tmp_path) in str(sys.modules[name].__file__):
                del sys.modules[name]


async def _cursor(app: App) -> str:
    """The end of a page of runs."""
    for number in range(2):
        await scenes.start_price(app, f"sku-{number}")
    _, cursor = await (await app.client()).page(scenes.ALL, limit=1)
    return cursor


def _typed(line: str, capsys: pytest.CaptureFixture[str]) -> tuple[object, str]:
    """The exit code of a line, and what it said."""
    words = said(line)
    if words is not None and words[0] in SERVERS:
        return _served([*words, *SERVERS[words[0]].split()])
    if words is None or any(f" {end}" in line.split("#", maxsplit=1)[0] for end in ENDS):
        done = _bash(line)
        return done.returncode, done.stdout + done.stderr
    with pytest.raises(SystemExit) as end:
        run(words)
    told = capsys.readouterr()
    return end.value.code, told.err or told.out


def _served(words: Sequence[str]) -> tuple[int, str]:
    argv = [sys.executable, "-m", "holdfast", *(word.replace(":9000", ":0") for word in words)]
    with subprocess.Popen(
        argv, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as server:
        assert server.stdout is not None
        first = server.stdout.readline()
        server.send_signal(signal.SIGINT)
        rest, _ = server.communicate(timeout=SECONDS)
    return 0 if server.returncode == 130 else server.returncode, first + rest


def _bash(text: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """What the commands do; nothing that they started in the background outlives them."""
    argv = ["bash", "-e", "-c", text]
    with subprocess.Popen(
        argv,
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as shell:
        try:
            out, err = shell.communicate(timeout=SECONDS)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(argv, shell.returncode, out, err)


def test_the_readme_makes_a_project(tmp_path: Path) -> None:
    """Promise: with the environment of the demo, the two lines make a project that is there."""
    [block] = [x for x in blocks_of(ROOT / "README.md") if set(x.info[:1]) & SHELL and is_run(x)]
    home = tmp_path / "holdfast"
    home.mkdir()
    (home / ".venv").symlink_to(Path(sys.executable).parents[1])
    done = _bash(block.text, home)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "shop" / "holdfast.toml").exists()


@pytest.mark.slow
@pytest.mark.timeout(200)  # the demo and a first day
def test_the_first_block_of_the_command_line_is_a_first_day(tmp_path: Path) -> None:
    """Promise: demo, project, worker in another terminal, start, signal, follow to the end."""
    [block] = [x for x in blocks_of(ROOT / "docs/guides/command-line.md") if x.place in TOLD]
    text = "\n".join(lines_of(block))
    assert "holdfast demo " in text
    assert "holdfast worker " in text
    text = re.sub(r"holdfast demo .*", "holdfast demo --fast", text)
    text = re.sub(r"holdfast worker .*", "holdfast worker & worker=$!", text)
    done = _bash(f"trap 'kill $worker; wait $worker' EXIT\n{text}", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("ended: completed\n")


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


def test_a_line_that_fails_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    assert _typed("holdfast show nobody --url sqlite:///none.db", capsys)[0] != 0
    assert _typed("holdfast worker nobody:app", capsys)[0] != 0
    assert _typed("false", capsys)[0] == 1
