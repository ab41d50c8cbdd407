"""The command that installs what is missing fits the environment it is printed in."""

from __future__ import annotations

import json
import sys
from importlib import metadata, util
from pathlib import Path
from typing import Any

import pytest

from holdfast import extras
from holdfast.extras import install_command, namesake_problem


@pytest.fixture
def origin(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the installer noted about where the distribution came from; empty: from an index."""
    noted: dict[str, Any] = {}

    class Found:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return json.dumps(noted) if noted else None

    def find(name: str) -> Found:
        if name != extras.DISTRIBUTION:
            raise metadata.PackageNotFoundError(name)
        return Found()

    monkeypatch.setattr(metadata, "distribution", find)
    monkeypatch.setattr(sys, "executable", "/opt/shop env/bin/python")
    monkeypatch.setattr(util, "find_spec", lambda name: object())
    return noted


@pytest.mark.usefixtures("origin")
def test_from_an_index_by_the_pip_of_this_interpreter() -> None:
    assert install_command("flows") == "'/opt/shop env/bin/python' -m pip install 'holdfast-workflows[flows]'"


@pytest.mark.usefixtures("origin")
def test_without_pip_by_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(util, "find_spec", lambda name: None)
    wanted = "uv pip install --python '/opt/shop env/bin/python' 'holdfast-workflows[flows]'"
    assert install_command("flows") == wanted


@pytest.mark.parametrize(("is_editable", "option"), [(True, "--editable "), (False, "")])
def test_from_the_folder_it_was_installed_from(
    origin: dict[str, Any], tmp_path: Path, is_editable: bool, option: str
) -> None:
    folder = tmp_path / "my søurce"
    folder.mkdir()
    origin.update(url=folder.as_uri(), dir_info={"editable": is_editable})
    assert install_command("s3").endswith("'holdfast-workflows[s3]'"), "the folder is gone: only the index is left"
    (folder / "pyproject.toml").touch()
    assert install_command("s3") == f"'/opt/shop env/bin/python' -m pip install {option}'{folder}[s3]'"


@pytest.mark.parametrize("noted", [{"url": "file:///x.whl", "archive_info": {}}, {"url": "nonsense", "dir_info": {}}])
def test_from_a_file_or_a_damaged_note_by_name(origin: dict[str, Any], noted: dict[str, Any]) -> None:
    origin.update(noted)
    assert install_command("s3").endswith("-m pip install 'holdfast-workflows[s3]'")


@pytest.mark.usefixtures("origin")
def test_no_namesake_is_no_problem() -> None:
    assert namesake_problem() == ""
