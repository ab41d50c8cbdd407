"""How a reader can run this command, so that printed advice works exactly as printed."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path


def program() -> str:
    """How to call this command from here: by its path if it is below this folder, else by its name."""
    script = Path(sys.prefix) / "bin" / "holdfast"
    if sys.prefix != sys.base_prefix and script.is_file() and script.is_relative_to(Path.cwd()):
        return str(script.relative_to(Path.cwd()))
    return "holdfast"


def activation() -> str | None:
    """The command that activates the virtual environment, if the program is in one and not on the path."""
    script = Path(sys.prefix) / "bin" / "activate"
    if shutil.which("holdfast") is not None or sys.prefix == sys.base_prefix or not script.is_file():
        return None
    return f". {shlex.quote(str(script))}"
