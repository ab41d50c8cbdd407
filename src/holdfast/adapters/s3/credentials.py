"""Finds keys where S3's own tools do, as far as obstore does not.

obstore asks for the role of the machine: web identity, container, instance. It does not read the shared files
`~/.aws/credentials` and `~/.aws/config`, which most laptops and many servers have. They are read here, unless the
environment has keys or names a role. A profile that the environment names comes first of all.
"""

from __future__ import annotations

import configparser
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import StoreRefused

if TYPE_CHECKING:
    from obstore.store import S3Config

ROLES = (
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)


def found_settings(environ: Mapping[str, str]) -> S3Config:
    """Keys of the environment, or keys, region and endpoint of the profile; nothing if the environment names a role.
    Raises `StoreRefused` if neither file has the named profile."""
    if not environ.get("AWS_PROFILE"):
        keys = _keys({name.lower(): value for name, value in environ.items()})
        if keys or any(environ.get(name) for name in ROLES):
            return keys
    said = _profile(environ.get("AWS_PROFILE") or "default", environ)
    if not said and environ.get("AWS_PROFILE"):
        named = environ["AWS_PROFILE"]
        raise StoreRefused(f"there is no profile {named!r} in ~/.aws/credentials or ~/.aws/config (AWS_PROFILE)")
    found = _keys(said)
    if said.get("region"):
        found["region"] = said["region"]
    if said.get("endpoint_url"):
        found["endpoint"] = said["endpoint_url"]
    return found


def _keys(said: Mapping[str, str]) -> S3Config:
    found: S3Config = {}
    if said.get("aws_access_key_id"):
        found["access_key_id"] = said["aws_access_key_id"]
    if said.get("aws_secret_access_key"):
        found["secret_access_key"] = said["aws_secret_access_key"]
    if said.get("aws_session_token"):
        found["session_token"] = said["aws_session_token"]
    return found


def _profile(profile: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The settings of the profile in both files; those in the credentials file win."""
    home = Path(environ.get("HOME") or "~").expanduser() / ".aws"
    config = _read(Path(environ.get("AWS_CONFIG_FILE") or home / "config"))
    shared = _read(Path(environ.get("AWS_SHARED_CREDENTIALS_FILE") or home / "credentials"))
    section = profile if profile == "default" else f"profile {profile}"
    said: dict[str, str] = {}
    for file, name in ((config, section), (shared, profile)):
        if file.has_section(name):
            said.update(file.items(name, raw=True))
    return said


def _read(path: Path) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(default_section="")
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        pass
    except configparser.Error as error:
        raise StoreRefused(f"{path} cannot be read as a file of profiles: {type(error).__name__}") from None
    return parser
