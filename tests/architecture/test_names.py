"""A module's name says what it holds, and stands once: whoever reads `call_keys` need not ask whose keys."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import PurePosixPath

from tests.architecture.source import PACKAGE, python_files

MIRRORS = (
    "adapters/",  # the files of one store are called as those of another
    "cli/commands/",  # a command's module is called as the command
    "errors/",  # a file of errors is called as what they are about
    "testing/conformance/",  # a suite is called as its port
)

LAYERED = {
    "facts": "`ports` defines them; `holdfast.facts` shows them to users",
    "limit": "`authoring` declares one, `core` decides",
    "limits": "`ports` is the contract, `client` asks, `client/inspect` explains what waits",
    "machine": "`turn`: the states of a held run; `standalone`: the class that users call",
    "queue": "`authoring` declares one, `core` decides",
    "queues": "`ports` is the contract, `client` asks, `client/inspect` explains what waits, `worker` has the loop",
    "schedule": "`authoring` declares one, `core` decides",
    "schedules": "`ports` is the contract, `client` asks, `client/inspect` explains, `worker` has the loop",
}
"""Nouns of the product that several layers have a file of, and what each of them does."""

GERUNDS = {
    "binding",  # of a flow: its definition bound to the workflows and steps of an app
    "doing",  # `Doing`, a word of the glossary: what a run is at
    "finding",  # what `doctor` found
    "lint_finding",  # what lint found
    "parking",  # a suite about parked runs; "park" is the verb of the worker
}
"""Names that end in -ing and are the best word for what their module holds."""


def repeated(names: Iterable[str]) -> dict[str, list[str]]:
    """The names of modules that stand in several packages."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        if not name.startswith(MIRRORS) and not PurePosixPath(name).name.startswith("__"):
            found[PurePosixPath(name).stem].append(name)
    return {stem: places for stem, places in found.items() if len(places) > 1}


def module_names() -> list[str]:
    return [path.relative_to(PACKAGE).as_posix() for path in python_files("src")]


def test_a_name_stands_once() -> None:
    """Contract: outside the mirrors, a name in two packages is a noun of the product, listed here."""
    found = {stem: places for stem, places in repeated(module_names()).items() if stem not in LAYERED}
    assert not found, f"say whose, as `call_keys` and `config/keys` do: {found}"


def test_what_is_listed_is_needed() -> None:
    """Contract: a line of `LAYERED` or `GERUNDS` that no module needs any more goes."""
    names = module_names()
    assert LAYERED.keys() - repeated(names).keys() == set()
    assert GERUNDS - {PurePosixPath(name).stem for name in names} == set()


def test_gerunds_are_chosen() -> None:
    """Contract: a module that ends in -ing is listed here, because it is called so on purpose."""
    found = sorted({PurePosixPath(name).stem for name in module_names() if name.endswith("ing.py")} - GERUNDS)
    assert not found, f"name the noun: {found}"


def test_a_repeated_name_is_found() -> None:
    names = ["core/keys.py", "config/keys.py", "adapters/etcd/keys.py", "cli/commands/keys.py", "core/__init__.py"]
    assert repeated([*names, "worker/__init__.py"]) == {"keys": ["core/keys.py", "config/keys.py"]}
