"""Optional parts of the distribution, and how to install one that is missing.

The distribution is called `holdfast-workflows`. `holdfast` on the package index is another project, with a package of
the same name: the one installed last overwrites the other. Modules that read metadata are imported when needed: every
worker imports this module, and few lack an extra.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module, util
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

DISTRIBUTION = "holdfast-workflows"
NAMESAKE = "holdfast"


def install_command(extra: str) -> str:
    """The shell command that installs an extra into the environment this process runs in."""
    return f"{_installer().install} {_requirement(extra)}"


def lack_of(extra: str, claim: str, **packages: str) -> str:
    """A sentence if modules of an extra cannot be imported; empty if all can. `claim` is the sentence up to the names
    of the packages ("leases by etcd need"); `packages` maps each module to its package."""
    missing = [package for module, package in packages.items() if not _is_importable(module)]
    return missing_sentence(extra, claim, *missing) if missing else ""


def missing_sentence(extra: str, claim: str, *packages: str) -> str:
    """The same for packages that are known to be missing."""
    are, them = ("is", "it") if len(packages) == 1 else ("are", "them")
    return f"{claim} {' and '.join(packages)}, which {are} not installed. Install {them}: {install_command(extra)}"


def namesake_problem() -> str:
    """What to do if the other project's package is installed beside this one; empty if it is not."""
    if not _is_installed(NAMESAKE):
        return ""
    installer = _installer()
    return (
        f"Another project's package, {NAMESAKE!r}, is installed in this environment and shares the folder 'holdfast' "
        f"with {DISTRIBUTION!r}. Remove it and install ours again: "
        f"{installer.uninstall} {NAMESAKE} && {installer.reinstall} {_requirement()}"
    )


class _Installer(NamedTuple):
    install: str
    uninstall: str
    reinstall: str


def _installer() -> _Installer:
    """pip of this environment, or uv where it has none."""
    python = quote(sys.executable or "python3")
    if util.find_spec("pip") is not None:
        pip = f"{python} -m pip"
        return _Installer(f"{pip} install", f"{pip} uninstall --yes", f"{pip} install --force-reinstall --no-deps")
    install = f"uv pip install --python {python}"
    return _Installer(install, f"uv pip uninstall --python {python}", f"{install} --reinstall --no-deps")


def _requirement(extra: str = "") -> str:
    """This distribution for an installer: its name, or the source folder it was installed from."""
    brackets = f"[{extra}]" if extra else ""
    folder = _source_folder()
    if folder is None:
        return quote(f"{DISTRIBUTION}{brackets}")
    path, is_editable = folder
    return ("--editable " if is_editable else "") + quote(f"{path}{brackets}")


def _source_folder() -> tuple[Path, bool] | None:
    """The folder that the distribution was installed from, and whether it is an editable install; None if it came from
    an index or a wheel, or if the folder is gone."""
    import json
    from importlib import metadata

    try:
        text = metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
        origin: dict[str, Any] = json.loads(text or "{}")
    except (metadata.PackageNotFoundError, ValueError):
        return None
    path = Path(_path_of(str(origin.get("url", ""))))
    if "dir_info" not in origin or not (path / "pyproject.toml").is_file():
        return None
    return path, bool(origin["dir_info"].get("editable"))


def _path_of(url: str) -> str:
    """The path of a `file://` URL. Without `urllib`: authoring imports this module and must stay light."""
    escaped = url.removeprefix("file://").encode()
    return re.sub(rb"%([0-9A-Fa-f]{2})", lambda found: bytes.fromhex(found[1].decode()), escaped).decode()


def _is_importable(module: str) -> bool:
    try:
        import_module(module)
    except ImportError:
        return False
    return True


def _is_installed(name: str) -> bool:
    from importlib import metadata

    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True
