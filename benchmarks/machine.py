"""What the figures were taken on, without names of machines or people."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

import apsw

import holdfast


def machine() -> dict[str, str | int]:
    """Processor, memory, system."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "cores": os.cpu_count() or 0,
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
        "load_before": str(round(os.getloadavg()[0], 1)),
    }


def versions() -> dict[str, str]:
    """What was measured, and what it stands on."""
    packages = {name: version(name) for name in ("apsw", "msgspec")}
    return {
        "holdfast": holdfast.__version__,
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        **packages,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
