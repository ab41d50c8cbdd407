"""Every Python block of README.md and docs/ runs, as a reader would run it.

Each block runs in a fresh process and an empty folder, so the default store lands there. A block whose first line is a
comment with a file name (`# shop.py`, `# order.yaml`) is saved under that name, and the later blocks of the page find
it; one called `test_*.py` is run by pytest. A fence with `no-run` after its language is only compiled.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import warm

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(
    r"^(?P<indent> *)(?P<ticks>`{3,}|~{3,}) *(?P<info>[^`\n]*)\n(?P<body>.*?)^(?P=indent)(?P=ticks) *$",
    re.MULTILINE | re.DOTALL,
)
NAME = re.compile(r"#\s*(?P<name>[\w./-]+\.\w+)\s*$")
SECONDS = 60
ONLY_OURS = ["-q", "-p", "no:cacheprovider", "-p", "holdfast.pytest_plugin"]
"""What a reader's pytest has; the plugins of our own suite are heavy, and each block is a process."""


@dataclass(frozen=True)
class Block:
    """One fenced block: where it stands, what its fence says, and its text."""

    page: Path
    line: int
    info: tuple[str, ...]
    text: str

    @property
    def name(self) -> str | None:
        """The file it stands for."""
        named = NAME.match(self.text.split("\n", 1)[0])
        return named["name"] if named else None

    @property
    def is_python(self) -> bool:
        return self.info[:1] in {("python",), ("py",)}

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT) if self.page.is_relative_to(ROOT) else self.page.name}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found: list[Block] = []
    for fence in FENCE.finditer(text):
        indent = len(fence["indent"])
        body = "\n".join(line[indent:] for line in fence["body"].split("\n"))
        first_line = text.count("\n", 0, fence.start("body")) + 1
        found.append(Block(page, first_line, tuple(fence["info"].split()), body))
    return found


def pages() -> list[Path]:
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    # The tutorial is told in order (test_tutorial.py), the reference is made from the code (test_reference.py).
    return [page for page in found if page.parent.name not in {"tutorial", "reference"}]


def run(block: Block, earlier: list[Block], folder: Path) -> None:
    """Runs the block in the folder, with the page's earlier files in it; fails with the place of the block."""
    if "no-run" in block.info:
        compile(block.text, block.place, "exec")
        return
    for file in [*earlier, block]:
        if name := file.name or ("block.py" if file is block else None):
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(file.text, encoding="utf-8")
    script = block.name or "block.py"
    is_test = Path(script).name.startswith("test_")
    command = ["-m", "pytest", *ONLY_OURS, script] if is_test else [script]
    env = {key: value for key, value in os.environ.items() if not key.startswith(("HOLDFAST_", "PYTEST_"))}
    env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    try:
        answer = warm.run(
            [sys.executable, *command],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        pytest.fail(f"{block.place}: the block did not end within {SECONDS} s", pytrace=False)
    if answer.returncode != 0:
        told = f"{answer.stdout}{answer.stderr}".replace(f'"{folder}/{script}"', block.place)
        pytest.fail(f"{block.place}: the block ended with {answer.returncode}\n{told}", pytrace=False)


def cases() -> list[tuple[Block, list[Block]]]:
    found: list[tuple[Block, list[Block]]] = []
    for page in pages():
        blocks = blocks_of(page)
        found += [(block, blocks[:index]) for index, block in enumerate(blocks) if block.is_python]
    return found


@pytest.mark.parametrize(("block", "earlier"), [pytest.param(*case, id=case[0].place) for case in cases()])
def test_the_block_runs(block: Block, earlier: list[Block], tmp_path: Path) -> None:
    """Contract: what the documentation shows works when copied."""
    run(block, earlier, tmp_path)


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.md"
    path.write_text(
        "# Page\n"
        "```python\n# first.py\nvalue = 41\n```\n"
        "```yaml\n# data/rest.yaml\none: 1\n```\n"
        "- indented\n"
        "  ```python\n  import pathlib, first\n  assert first.value + 1 == 42\n"
        "  assert 'one' in pathlib.Path('data/rest.yaml').read_text()\n  ```\n"
        "```python no-run\nimport no_such_module\n```\n"
        "```python\n\nraise SystemExit(3)\n```\n"
        "```python no-run\nthis is no Python\n```\n"
    )
    return path


def test_blocks_are_found_with_their_lines(page: Path) -> None:
    assert [(block.line, block.name) for block in blocks_of(page)] == [
        (3, "first.py"),
        (7, "data/rest.yaml"),
        (12, None),
        (17, None),
        (20, None),
        (24, None),
    ]


def test_later_blocks_import_earlier_ones(page: Path, tmp_path: Path) -> None:
    blocks = blocks_of(page)
    run(blocks[2], blocks[:2], tmp_path)


def test_a_block_that_is_not_run_is_compiled(page: Path, tmp_path: Path) -> None:
    run(blocks_of(page)[3], [], tmp_path)
    with pytest.raises(SyntaxError):
        run(blocks_of(page)[5], [], tmp_path)


def test_a_failing_block_is_reported_with_its_place(page: Path, tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"page\.md:20: the block ended with 3"):
        run(blocks_of(page)[4], [], tmp_path)
