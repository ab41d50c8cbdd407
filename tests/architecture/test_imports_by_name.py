"""Modules that are imported by name, which import-linter does not see."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.architecture.source import PACKAGE, parse, python_files, shown

BY_NAME = {
    "__init__.py": "the façade loads each public name from where it lives, when it is used",
    "adapters/etcd/connection.py": "packages without types",
    "adapters/nats/link.py": "a package without types",
    "adapters/postgres/after_commit.py": "SQLAlchemy or Django, if the caller's connection is theirs",
    "adapters/postgres/lent_session.py": "SQLAlchemy, if a step asks for a session of it",
    "authoring/registry.py": "a module of the user's that an app names",
    "cli/django_project.py": "Django, if the folder has a project of it",
    "cli/root.py": "the module of a command, when it is called",
    "cli/targets.py": "the user's app",
    "engine/processes.py": "the user's steps, in another process",
    "django.py": "Django's connections, which have no types",
    "doors.py": "`holdfast.web`, for the layers below it",
    "extras.py": "whether an optional package can be imported",
    "testing/sweep/elsewhere.py": "the user's workflows, in another process",
}
"""The modules that import others by name, and which."""

IMPORTERS = {"import_module", "__import__", "spec_from_file_location"}
DOOR_USERS = ("app.py", "cli/")
"""Who may open a door to `holdfast.web`: layers beside it or directly below it."""


def named_calls(tree: ast.Module, names: set[str]) -> Iterator[ast.Call]:
    """The calls of functions of these names, called as `f(…)` or `module.f(…)`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in names:
                yield node


def with_words(words: set[str]) -> Iterator[tuple[str, ast.Module]]:
    """The modules of the package whose text has one of these words."""
    for path in python_files("src"):
        text = path.read_text(encoding="utf-8")
        if any(word in text for word in words):
            yield path.relative_to(PACKAGE).as_posix(), parse(path)


def test_few_modules_import_by_name() -> None:
    """Contract: an import by name stands in a module that is listed here, so that no layer is passed unseen."""
    found = {name for name, tree in with_words(IMPORTERS) if any(named_calls(tree, IMPORTERS))}
    assert found == BY_NAME.keys()


def test_a_door_leads_to_a_module_and_is_opened_from_above() -> None:
    """Contract: `doors.web` names a module of `holdfast.web` that is there, and only `app` and `cli` use it."""
    doors = 0
    for name, tree in with_words({"holdfast.doors"}):
        if not any(isinstance(x, ast.ImportFrom) and x.module == "holdfast.doors" for x in ast.walk(tree)):
            continue
        assert name.startswith(DOOR_USERS), f"{shown(PACKAGE / name)} knows nothing of holdfast.web"
        for call in named_calls(tree, {"web"}):
            (target,) = call.args
            assert isinstance(target, ast.Constant), shown(PACKAGE / name, call.lineno)
            assert (PACKAGE / "web" / f"{target.value!s}.py").is_file(), shown(PACKAGE / name, call.lineno)
            doors += 1
    assert doors


def test_a_planted_import_by_name_is_found() -> None:
    source = "import importlib\nfrom importlib import import_module\nimportlib.import_module('a')\nimport_module('b')\n"
    assert [call.lineno for call in named_calls(ast.parse(source), IMPORTERS)] == [3, 4]
