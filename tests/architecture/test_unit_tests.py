"""`tests/unit` mirrors `src`: who looks for the tests of a package finds them in the folder of its name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import holdfast
from tests.architecture.source import PACKAGE, ROOT, parse, python_files, shown

UNIT = ROOT / "tests" / "unit"
OTHERS = {"benchmarks": "benchmarks", "command": "tests/command", "support": "tests/support"}
"""Folders of the project besides the package that have unit tests, and where they are."""

ELSEWHERE = {
    "adapters": "a package of packages",
    "adapters.etcd": "tests/integration/test_etcd.py",
    "adapters.limits": "tests/conformance/test_stores.py",
    "authoring.batch": "tests/integration/test_batches.py",
    "cli.demo": "tests/integration/test_demo.py",
    "errors": "tests/docs/test_reference.py",
    "ports": "tests/conformance/test_stores.py",
    "testing.conformance": "tests/conformance/test_stores.py",
}
"""Packages without unit tests, and what tests them."""


@cache
def homes() -> dict[str, str]:
    """Where each name of the façade lives."""
    found: dict[str, str] = vars(holdfast)["_HOMES"]
    return {name: home for home, names in found.items() for name in names.split()}


def imported(tree: ast.Module) -> Iterator[str]:
    """Every module and name that is imported, names of the façade by where they live."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield homes().get(alias.name, "") if node.module == "holdfast" else f"{node.module}.{alias.name}"


def is_about(test: Path, package: str) -> bool:
    """Whether a test file is about a package: it is named after one of its modules, or imports one, itself or through
    a conftest or a helper below `tests/unit`."""
    modules = {path.stem for path in (PACKAGE / package.replace(".", "/")).glob("*.py")}
    words = test.stem.removeprefix("test_").split("_")
    if any("_".join(words[:count]) in modules for count in range(1, len(words) + 1)):
        return True
    wanted, seen = f"holdfast.{package}.", set[Path]()
    ahead = [test, *(folder / "conftest.py" for folder in test.parents if folder.is_relative_to(UNIT))]
    while ahead:
        path = ahead.pop()
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        names = list(imported(parse(path)))
        if any(f"{name}.".startswith(wanted) for name in names):
            return True
        ahead += [ROOT / f"{name.rpartition('.')[0].replace('.', '/')}.py" for name in names if "tests.unit" in name]
    return False


def unit_tests() -> list[Path]:
    return [path for path in python_files("tests/unit") if path.name.startswith("test_")]


def test_every_folder_is_a_package() -> None:
    """Contract: below `tests/unit` there are folders of packages, and of the few others that are named here."""
    packages = {path.parent for path in python_files("src")}
    found = {
        shown(path)
        for path in sorted({file.parent for file in unit_tests()} - {UNIT})
        if (relative := path.relative_to(UNIT)).parts[0] not in OTHERS and PACKAGE / relative not in packages
    }
    assert not found, f"no package of that name: {found}"
    assert all((ROOT / folder).is_dir() for folder in OTHERS.values())


def test_a_test_stands_with_its_package() -> None:
    """Contract: each test file is in the folder of a package that it is about."""
    found = []
    for path in unit_tests():
        folder = path.parent.relative_to(UNIT)
        if folder.parts and folder.parts[0] not in OTHERS and not is_about(path, ".".join(folder.parts)):
            found.append(shown(path))
    assert not found, f"they are about another package, move them there: {found}"


def test_every_package_has_tests() -> None:
    """Contract: a package has unit tests, or it is said here what tests it."""
    packages = {path.parent.relative_to(PACKAGE) for path in python_files("src")} - {Path()}
    with_tests = {path.parent.relative_to(UNIT) for path in unit_tests()}
    found = {".".join(path.parts) for path in packages - with_tests}
    assert found == ELSEWHERE.keys()
    assert [place for place in ELSEWHERE.values() if "/" in place and not (ROOT / place).is_file()] == []


@pytest.mark.parametrize(
    ("name", "package", "is_found"),
    [
        ("core/test_fold_of_others.py", "core", True),
        ("core/test_other.py", "core", False),
        ("worker/test_other.py", "worker", False),
    ],
)
def test_a_test_in_the_wrong_folder_is_found(name: str, package: str, is_found: bool) -> None:
    assert is_about(UNIT / name, package) is is_found
