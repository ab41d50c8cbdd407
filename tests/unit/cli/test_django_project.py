"""Which Django project a worker sets up."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.cli.django_project import set_up_project, settings_in
from holdfast.errors import InvalidInput

MANAGE = """
import os, sys

def main():
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
    raise SystemExit("this file must not be run")

main()
"""


@pytest.fixture(autouse=True)
def _no_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DJANGO_SETTINGS_MODULE", raising=False)


def test_settings_are_read_from_manage_py_without_running_it(tmp_path: Path) -> None:
    """Promise: the name that `manage.py` sets; None where there is none to read."""
    file = tmp_path / "manage.py"
    assert settings_in(file) is None
    file.write_text(MANAGE, encoding="utf-8")
    assert settings_in(file) == "shop.settings"
    for other in ("this is not python", "import os\nos.environ.setdefault('LANG', 'C')", "\0"):
        file.write_text(other, encoding="utf-8")
        assert settings_in(file) is None


def test_a_folder_without_a_project_is_left_alone_or_refused(tmp_path: Path) -> None:
    """Promise: nothing is set up unless there is a project; `--django` says what to do."""
    assert not set_up_project(tmp_path, is_asked=False)
    with pytest.raises(InvalidInput, match=r"--django: no project found. Set DJANGO_SETTINGS_MODULE, or run"):
        set_up_project(tmp_path, is_asked=True)


def test_settings_that_do_not_exist_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Promise: the error says which settings, and why."""
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "no_such.settings")
    with pytest.raises(InvalidInput, match=r"set up with the settings no_such.settings: ModuleNotFoundError"):
        set_up_project(tmp_path, is_asked=False)
