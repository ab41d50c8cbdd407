"""The pytest plugin: there by installing Holdfast, and free for those who do not use it."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import holdfast
from holdfast.testing import Sim

UNUSED = """
import sys

def test_other_things(request):
    assert request.config.pluginmanager.has_plugin("holdfast")
    loaded = {name for name in sys.modules if name.startswith("holdfast") or name in ("apsw", "msgspec", "asyncio")}
    assert loaded == {"holdfast", "holdfast.pytest_plugin"}, loaded
"""


def test_the_fixture_comes_with_the_package(sim: Sim) -> None:
    """Contract: `sim` is there without an import or a conftest."""
    assert isinstance(sim, Sim)


def test_the_entry_point_is_declared() -> None:
    assert {x.value for x in entry_points(group="pytest11") if x.name == "holdfast"} == {"holdfast.pytest_plugin"}


def test_loading_the_plugin_costs_nothing(tmp_path: Path) -> None:
    """Contract: where no test asks for `sim`, two small modules are loaded: no engine, no SQLite, not even asyncio."""
    (tmp_path / "test_unused.py").write_text(UNUSED, encoding="utf-8")
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    others = [f"-pno:{x.name}" for x in entry_points(group="pytest11") if x.name != "holdfast"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:unraisableexception", *others],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_names_are_loaded_from_where_checkers_see_them() -> None:
    """Contract: the table of lazy names is the list of imports that type checkers read, and `__all__` is both."""
    tree = ast.parse(Path(holdfast.__file__).read_text(encoding="utf-8"))
    imports = {
        alias.name: node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    table = {name: home for home, names in holdfast._HOMES.items() for name in names.split()}
    assert table == {name: home for name, home in imports.items() if home and home.startswith("holdfast.")}
    assert sorted(table) == sorted(holdfast.__all__)
    assert set(holdfast.__all__) <= set(dir(holdfast))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'holdfast' has no attribute 'nothing'"):
        getattr(holdfast, "nothing")  # noqa: B009
