"""Keys are found where S3's own tools look."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.adapters.s3.credentials import found_settings
from holdfast.errors import StoreRefused

KEYS = {"AWS_ACCESS_KEY_ID": "env-key", "AWS_SECRET_ACCESS_KEY": "env-secret", "AWS_SESSION_TOKEN": "env-token"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / ".aws"
    folder.mkdir()
    (folder / "credentials").write_text(
        "[default]\naws_access_key_id = file-key\naws_secret_access_key = 50%secret\n"
        "[other]\naws_access_key_id = other-key\naws_secret_access_key = other-secret\n"
    )
    (folder / "config").write_text(
        "[default]\nregion = eu-1\n[profile other]\nregion = eu-2\nendpoint_url = https://host:9000\n"
    )
    return tmp_path


def test_the_environment_comes_first(home: Path) -> None:
    """Contract: keys of the environment, or the role that it names, and nothing of the files."""
    found = found_settings({"HOME": str(home), **KEYS})
    assert found == {"access_key_id": "env-key", "secret_access_key": "env-secret", "session_token": "env-token"}
    assert found_settings({"HOME": str(home), "AWS_WEB_IDENTITY_TOKEN_FILE": "/token"}) == {}


def test_the_shared_files_come_next(home: Path) -> None:
    """Contract: the default profile, or the one that is named, which also comes before keys of the environment."""
    default = {"access_key_id": "file-key", "secret_access_key": "50%secret", "region": "eu-1"}
    assert found_settings({"HOME": str(home)}) == default
    assert found_settings({"HOME": str(home), "AWS_PROFILE": "other", **KEYS}) == {
        "access_key_id": "other-key",
        "secret_access_key": "other-secret",
        "region": "eu-2",
        "endpoint": "https://host:9000",
    }


def test_without_any_the_machine_is_asked(tmp_path: Path) -> None:
    """Contract: nothing is found, and obstore asks for the machine's role."""
    assert found_settings({"HOME": str(tmp_path)}) == {}


def test_a_profile_that_is_not_there_is_refused(home: Path) -> None:
    """Contract: the error names it and the files; a file that is none of profiles is named, without its text."""
    with pytest.raises(StoreRefused, match=r"no profile 'absent' in ~/\.aws"):
        found_settings({"HOME": str(home), "AWS_PROFILE": "absent"})
    (home / ".aws" / "credentials").write_text("hunter2\n")
    with pytest.raises(StoreRefused, match="cannot be read as a file of profiles") as refused:
        found_settings({"HOME": str(home)})
    assert "hunter2" not in str(refused.value)
