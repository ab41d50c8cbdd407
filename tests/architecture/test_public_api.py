"""What users import: the names are agreed, documented, and cheap to load."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from tests.architecture.source import ROOT, shown

SNAPSHOT = Path(__file__).with_name("public_api.txt")
UPDATE = "HOLDFAST_UPDATE_SNAPSHOTS"

OPTIONAL = set(
    "aetcd attr attrs grpc httpx jsonschema_rs nats obstore opentelemetry prometheus_client psycopg pydantic "
    "starlette uvicorn uvloop yaml_rs".split()
)
WHEN_NEEDED = {"apsw", "click", "rich"}  # the store opens, a command runs, something is printed


def test_the_public_names_are_the_agreed_ones() -> None:
    """Contract: a public name comes or goes on purpose: the committed list changes with it."""
    names = "".join(f"{name}\n" for name in sorted(holdfast.__all__))
    if os.environ.get(UPDATE):
        SNAPSHOT.write_text(names, encoding="utf-8")
    agreed = SNAPSHOT.read_text(encoding="utf-8")
    assert names == agreed, f"if that is meant, renew {shown(SNAPSHOT)} with {UPDATE}=1"


def test_the_public_names_exist() -> None:
    """Contract: `from holdfast import *` works and `__all__` lists nothing twice."""
    assert len(set(holdfast.__all__)) == len(holdfast.__all__)
    assert not [name for name in holdfast.__all__ if not hasattr(holdfast, name)]


def undocumented(name: str, thing: object) -> Iterator[str]:
    """The public name, and the public methods of a class of ours, that have no docstring, nor inherit one."""
    doc = thing.__doc__ if isinstance(thing, type) else inspect.getdoc(thing)
    if not doc or doc.startswith(f"{name}("):  # what @dataclass writes by itself does not count
        yield name
    if isinstance(thing, type) and thing.__module__.startswith("holdfast"):
        for key, member in vars(thing).items():
            method = getattr(member, "__func__", getattr(member, "fget", member))
            if not key.startswith("_") and inspect.isroutine(method) and not inspect.getdoc(method):
                yield f"{name}.{key}"


def test_every_public_name_is_documented() -> None:
    """Contract: `help()` answers for everything a user meets."""
    found = [gap for name in holdfast.__all__ for gap in undocumented(name, getattr(holdfast, name))]
    assert not found, f"without a docstring: {found}"


def test_a_missing_docstring_is_found() -> None:
    namespace = {"__module__": "holdfast.x", "verb": lambda _self: None, "asked": property(lambda _self: None)}
    assert list(undocumented("Thing", type("Thing", (), namespace))) == ["Thing", "Thing.verb", "Thing.asked"]


def modules_of(code: str) -> set[str]:
    """The modules a fresh interpreter holds after this code."""
    report = "import json, sys; print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    answer = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    return set(json.loads(answer.stderr.splitlines()[-1]))


def loaded_by(code: str) -> set[str]:
    """The top-level packages among them."""
    return {name.split(".")[0] for name in modules_of(code)}


@pytest.mark.parametrize("module", ["holdfast", "holdfast.sync"])
def test_importing_is_light(module: str) -> None:
    """Contract: an import loads no optional package, no terminal library, and SQLite only when a store is opened."""
    assert not loaded_by(f"import {module}") & (OPTIONAL | WHEN_NEEDED)


def test_an_app_of_scripts_loads_no_machines() -> None:
    """Contract: a worker starts with what it serves; the other ways of writing workflows stay on the disk."""
    loaded = modules_of("from holdfast import App, step, workflow\nApp('memory://')")
    assert not {
        name for name in loaded if name.startswith(("holdfast.authoring.machine", "holdfast.core.machine_history"))
    }


def test_help_is_light() -> None:
    """Contract: `holdfast --help` answers without loading what only some commands need."""
    code = "import sys; sys.argv = ['holdfast', '--help']\nfrom holdfast.cli import main\n"
    code += "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end"
    assert not loaded_by(code) & (OPTIONAL | WHEN_NEEDED - {"click"})


def test_a_heavy_import_is_seen() -> None:
    assert "httpx" in loaded_by("import httpx")
