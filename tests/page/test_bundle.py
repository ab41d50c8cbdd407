"""The committed bundle is what the sources give, small enough, and free of where its parts were downloaded."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.page.bundle import MOST_BYTES, STATIC, UI, build, check_types, weight


def test_the_committed_bundle_is_that_of_the_sources(tmp_path: Path) -> None:
    """Contract: what users get was built from what reviewers read."""
    build(tmp_path)
    built = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    committed = {path.name: path.read_bytes() for path in STATIC.iterdir()}
    assert built.keys() == committed.keys()
    stale = [name for name, content in built.items() if committed[name] != content]
    assert not stale, f"{', '.join(stale)}: run `python3 dev.py ui` and commit what it writes"


def test_the_page_is_small() -> None:
    assert weight(STATIC) <= MOST_BYTES


def test_the_sources_pass_the_type_checker() -> None:
    assert not check_types()


def test_the_page_has_no_inline_code_and_asks_no_other_host() -> None:
    """Contract: a strict content security policy loses nothing."""
    index = (STATIC / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", index)
    assert re.findall(r"""(?:src|href)="(?!data:)([^"]+)""", index) == ["static/app.css", "static/app.js"]
    for name in ("app.js", "app.css"):
        addresses = set(re.findall(r"https?://[\w.-]+", (STATIC / name).read_text(encoding="utf-8")))
        assert addresses <= {"http://www.w3.org"}, addresses  # the name of a vocabulary, not a place


def test_the_lockfile_pins_every_package_and_names_no_host() -> None:
    packages = json.loads((UI / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    del packages[""]
    assert packages
    for name, package in packages.items():
        assert "resolved" not in package, name
        assert package["integrity"].startswith("sha512-"), name
    wanted = json.loads((UI / "package.json").read_text(encoding="utf-8"))
    for versions in (wanted["dependencies"], wanted["devDependencies"]):
        assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in versions.values())
