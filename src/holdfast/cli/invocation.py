"""How a reader of our advice can call this command: advice should work exactly as printed."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path


def program() -> str:
    """The words that call this command from here: its path if it lies below this folder, else its name."""
    script = Path(sys.prefix) / "bin" / "holdfast"
    if sys.prefix != sys.base_prefix and script.is_file() and script.is_relative_to(Path.cwd()):
        return str(script.relative_to(Path.cwd()))
    return "holdfast"


def activation() -> str | None:
    """What puts the command on the path, if it is not there and lies in a virtual environment."""
    script = Path(sys.prefix) / "bin" / "activate"
    if shutil.which("holdfast") is not None or sys.prefix == sys.base_prefix or not script.is_file():
        return None
    return f". {shlex.quote(str(script))}"
