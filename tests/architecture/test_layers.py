"""Imports point one way, and the contracts of pyproject.toml would notice if they did not."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.architecture.source import PACKAGE, ROOT, parse, python_files, shown

LAYERS = (
    "cli web contrib testing lint app sync client worker engine upkeep standalone turn adapters adapters.sqlite "
    "adapters.postgres adapters.memory adapters.s3 adapters.etcd adapters.nats schedules queues config authoring "
    "authoring.script authoring.machine ports core errors"
).split()


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Checks folder/src against the contracts in folder/pyproject.toml."""
    run = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"
    env = {**os.environ, "PYTHONPATH": str(folder / "src"), "COLUMNS": "200"}
    return subprocess.run(
        [sys.executable, "-c", run, "--no-cache"], cwd=folder, env=env, capture_output=True, text=True, check=False
    )


@pytest.fixture
def skeleton(tmp_path: Path) -> Path:
    """An empty package in every layer, under the project's own contracts."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for layer in ["", *LAYERS]:
        package = tmp_path / "src" / "holdfast" / layer.replace(".", "/")
        package.mkdir(parents=True, exist_ok=True)
        (package / "__init__.py").touch()
    (tmp_path / "src/holdfast/adapters/sqlite/library.py").write_text("import apsw\n")
    (tmp_path / "src/holdfast/adapters/postgres/library.py").write_text("import psycopg\n")
    (tmp_path / "src/holdfast/adapters/s3/library.py").write_text("import obstore\n")
    (tmp_path / "src/holdfast/adapters/etcd/library.py").write_text("import aetcd, grpc\n")
    (tmp_path / "src/holdfast/adapters/nats/library.py").write_text("import nats\n")
    (tmp_path / "src/holdfast/cli/terminal.py").write_text("import click, rich\n")
    return tmp_path


def test_every_import_points_down() -> None:
    """Contract: each import of the package respects each contract."""
    checked = lint_imports(ROOT)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_an_empty_skeleton_keeps_the_contracts(skeleton: Path) -> None:
    """Contract: what the next tests see is the planted line, not the skeleton."""
    checked = lint_imports(skeleton)
    assert checked.returncode == 0, checked.stdout + checked.stderr


PLANTED = [
    ("core", "import holdfast.ports", "Imports point one way"),
    ("core", "from holdfast.engine import anything", "Imports point one way"),
    ("errors", "import holdfast.core", "Imports point one way"),
    ("engine", "import holdfast.adapters", "Imports point one way"),
    ("client", "import holdfast.worker", "Imports point one way"),
    ("app", "import holdfast.testing", "Imports point one way"),
    ("web", "import holdfast.cli", "Imports point one way"),
    ("queues", "import holdfast.engine", "Imports point one way"),
    ("schedules", "import holdfast.queues", "Imports point one way"),
    ("core", "def now():\n    import time", "core decides"),
    ("core", "import random", "core decides"),
    ("core", "import os", "core decides"),
    ("core", "import asyncio", "core decides"),
    ("core", "from threading import Lock", "core decides"),
    ("core", "from os import path", "core decides"),
    ("turn", "import asyncio", "turn decides"),
    ("turn", "import logging", "turn decides"),
    ("turn", "import holdfast.engine", "Imports point one way"),
    ("turn", "import holdfast.standalone", "Imports point one way"),
    ("authoring.machine", "import holdfast.standalone", "Imports point one way"),
    ("client", "import holdfast.engine", "A client asks"),
    ("authoring.script", "import socket", "authoring proposes"),
    ("authoring", "import subprocess", "authoring proposes"),
    ("authoring.script", "import holdfast.authoring.machine", "Machines and flows stand"),
    ("adapters", "import pickle", "No data that names code"),
    ("cli", "import marshal", "No data that names code"),
    ("adapters.sqlite", "import sqlite3", "One SQLite library"),
    ("adapters.memory", "import apsw", "apsw is spoken"),
    ("cli", "import apsw", "apsw is spoken"),
    ("client", "import psycopg", "psycopg is spoken"),
    ("adapters.memory", "import obstore", "obstore is spoken"),
    ("worker", "import grpc", "etcd is spoken"),
    ("adapters.etcd", "import nats", "NATS is spoken"),
    ("worker", "import rich.table", "click and rich"),
    ("cli", "import holdfast.web", "Imports point one way"),
    ("cli", "from holdfast.engine import anything", "cli and web are clients"),
    ("cli", "import holdfast.adapters.sqlite", "cli and web are clients"),
    ("cli", "def check():\n    import holdfast.testing", "cli and web are clients"),
    ("web", "import holdfast.engine", "cli and web are clients"),
    ("web", "from holdfast.adapters import memory", "cli and web are clients"),
    ("web", "import holdfast.testing", "cli and web are clients"),
]
"""Where a line is planted, the line, and the contract that has to notice."""


def test_every_contract_has_a_planted_import() -> None:
    """Contract: no contract of pyproject.toml is there without a line that breaks it."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    names = [str(one["name"]) for one in settings["tool"]["importlinter"]["contracts"]]
    assert not [name for name in names if not any(name.startswith(contract) for _, _, contract in PLANTED)]


def test_every_planted_import_is_found(skeleton: Path) -> None:
    """Contract: each kind of wrong import breaks the contract that names it. All are planted in one tree, each in a
    module of its own, and have to be named in the section of their contract."""
    for number, (importer, line, _) in enumerate(PLANTED):
        module = skeleton / "src" / "holdfast" / importer.replace(".", "/") / f"planted_{number}.py"
        module.write_text(line + "\n")
    checked = lint_imports(skeleton)
    assert checked.returncode == 1, checked.stdout + checked.stderr
    sections = broken_contracts(checked.stdout)
    for number, (importer, line, contract) in enumerate(PLANTED):
        found = [text for title, text in sections.items() if title.startswith(contract)]
        assert found, f"no contract {contract!r} is broken:\n{checked.stdout}"
        assert f"holdfast.{importer}.planted_{number} -> " in found[0], (
            f"{importer}: {line!r} is not found:\n{found[0]}"
        )


def broken_contracts(report: str) -> dict[str, str]:
    """The report of lint-imports on broken contracts, by title: each title is underlined."""
    sections: dict[str, str] = {}
    title, lines = "", report.partition("Broken contracts")[2].splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line and following == "-" * len(line):
            title = line
        sections[title] = f"{sections.get(title, '')}{line}\n"
    return sections


def test_a_package_without_a_layer_is_found(skeleton: Path) -> None:
    """Contract: a new package cannot stay outside the layers."""
    (skeleton / "src" / "holdfast" / "misc.py").touch()
    assert lint_imports(skeleton).returncode == 1


def imports_of_the_facade(tree: ast.Module) -> list[int]:
    """Lines that import names from `holdfast` itself, not from one of its modules."""
    modules = _modules()
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module == "holdfast"
        if any(alias.name not in modules for alias in node.names)
    ]


@cache
def _modules() -> frozenset[str]:
    return frozenset(path.stem for path in PACKAGE.iterdir())


def test_the_facade_is_for_users() -> None:
    """Contract: the package's own modules import from where a name lives, so that the façade holds no cycle."""
    inside = [path for path in python_files("src") if path != PACKAGE / "__init__.py"]
    found = [shown(path, line) for path in inside for line in imports_of_the_facade(parse(path))]
    assert not found, f"import from the module that defines the name: {found}"


def test_a_planted_import_of_the_facade_is_found() -> None:
    assert imports_of_the_facade(ast.parse("import os\nfrom holdfast import App")) == [2]
