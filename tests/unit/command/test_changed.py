"""Which tests a change asks for."""

from __future__ import annotations

import pytest

from tests.command.changed import changed_files, module_of, needed_for, sources, users_of

PROJECT = {
    "src/holdfast/__init__.py": "if TYPE_CHECKING:\n    from holdfast.app import App\n",
    "src/holdfast/app.py": "from holdfast.core.turn import fold\n",
    "src/holdfast/core/__init__.py": "",
    "src/holdfast/core/turn.py": "def fold(): ...\n",
    "src/holdfast/core/alone.py": "",
    "src/holdfast/cli/root.py": 'import importlib\nTABLE = {"check": "doctor"}\n\nimportlib.import_module("x")\n',
    "src/holdfast/cli/doctor.py": "",
    "src/holdfast/adapters/postgres/__init__.py": "",
    "src/holdfast/adapters/postgres/store.py": "",
    "tests/conftest.py": "",
    "tests/unit/core/test_turn.py": "from holdfast.core.turn import fold\n",
    "tests/unit/core/test_alone.py": "from holdfast.core import alone\n",
    "tests/unit/test_app.py": "from holdfast import App\n",
    "tests/unit/test_postgres.py": "from holdfast.adapters.postgres.store import anything\n",
    "tests/integration/conftest.py": "from holdfast.app import App\n",
    "tests/integration/test_world.py": "",
    "tests/chaos/jobs.py": "",
    "tests/chaos/test_fleet.py": 'COMMAND = ["python", "-m", "tests.chaos.jobs"]\n',
    "tests/cli/test_cli.py": "import holdfast.cli.root\n",
    "tests/docs/test_pages.py": "",
    "tests/golden/test_golden.py": "",
}


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        ("src/holdfast/core/alone.py", {"tests/unit/core/test_alone.py"}),
        (
            "src/holdfast/core/turn.py",
            {"tests/unit/core/test_turn.py", "tests/unit/test_app.py", "tests/integration/test_world.py"},
        ),
        ("src/holdfast/adapters/postgres/schema/0001.sql", {"tests/unit/test_postgres.py"}),
        ("tests/chaos/jobs.py", {"tests/chaos/test_fleet.py"}),
        ("src/holdfast/cli/doctor.py", {"tests/cli/test_cli.py"}),
        ("tests/unit/core/test_turn.py", {"tests/unit/core/test_turn.py"}),
        ("tests/golden/sequence-1.json", {"tests/golden/test_golden.py"}),
        ("docs/guides/sqlite.md", {"tests/docs/test_pages.py"}),
        ("tests/conftest.py", {path for path in PROJECT if "/test_" in path}),
    ],
)
def test_a_change_asks_for_the_tests_that_import_it(changed: str, wanted: set[str]) -> None:
    """Contract: directly, through another module, the façade or a conftest, or as a process; nothing else."""
    assert set(needed_for([changed], PROJECT)) == wanted


@pytest.mark.slow
def test_the_tests_of_this_project_are_found() -> None:
    """Contract: on the real sources, the pure heart is everybody's, and a leaf is not."""
    texts = sources()
    every = {path for path in texts if path.startswith("tests/") and "/test_" in path}
    users = users_of(texts)
    of_the_heart = set(needed_for(["src/holdfast/core/turn.py"], texts, users))
    of_a_leaf = set(needed_for(["tests/chaos/compacting_process.py"], texts, users))
    assert "tests/conformance/test_stores.py" in of_the_heart
    assert of_a_leaf == {"tests/chaos/test_killed_compaction.py"}
    assert of_the_heart < every


def test_modules_have_names() -> None:
    assert module_of("src/holdfast/core/turn.py") == "holdfast.core.turn"
    assert module_of("src/holdfast/core/__init__.py") == "holdfast.core"
    assert module_of("tests/conftest.py") == "tests.conftest"


def test_an_unknown_revision_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing-of-that-name"):
        changed_files("nothing-of-that-name")
