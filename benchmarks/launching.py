"""Where the time goes between the launch of a process and the first new step of the run that it takes back (W6)."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.process import ROOT
from benchmarks.recovery import long_run
from benchmarks.report import shown
from benchmarks.scale import Scale
from benchmarks.throughput import url_of

LAUNCHES = 5
TOP = 12


def launch(scale: Scale, folder: Path) -> str:
    """The report: the phases (medians), then the imports by package, from a launch of its own that times them."""
    path = asyncio.run(long_run(folder, scale.w6_steps))
    copies = [folder / f"copy{number}.db" for number in range(LAUNCHES + 1)]
    for copy in copies:
        copy.write_bytes(path.read_bytes())
    empty = median(_taken("-c", "pass") for _ in range(LAUNCHES))
    runs = [_phases(url_of(folder, copy.name)) for copy in copies[1:]]
    phases = {name: median(run[name] for run in runs) for name in runs[0]}
    whole = sum(phases.values())
    imports = phases.pop("launch and imports")
    lines = [f"W6: {scale.w6_steps} steps; from the launch to the next step {shown(whole)} ms", ""]
    lines.append(f"{shown(empty):>8} ms  an interpreter that does nothing")
    lines.append(f"{shown(imports - empty):>8} ms  imports")
    lines += [f"{shown(milliseconds):>8} ms  {name}" for name, milliseconds in phases.items()]
    return "\n".join([*lines, "", *_packages(url_of(folder, copies[0].name))])


def _taken(*arguments: str) -> float:
    started = time.monotonic()
    subprocess.run([sys.executable, *arguments], check=True, cwd=ROOT)
    return (time.monotonic() - started) * 1e3


def _resumed(url: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(word for word in (str(ROOT), os.environ.get("PYTHONPATH", "")) if word)
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.resuming", url, "w6"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, **environment},
    )


def _phases(url: str) -> dict[str, float]:
    launched_at = time.monotonic()
    said: dict[str, Any] = json.loads(_resumed(url).stdout)
    moments = [launched_at, *(said[name] for name in ("imported", "claimed", "body", "step"))]
    names = ("launch and imports", "store opened, run claimed", "journal read and folded", "replay of the program")
    return {name: (moments[n + 1] - moments[n]) * 1e3 for n, name in enumerate(names)}


def _packages(url: str) -> list[str]:
    """Own time of every package's modules, as the interpreter measures it; that slows imports down by itself."""
    found: Counter[str] = Counter()
    modules: Counter[str] = Counter()
    told = _resumed(url, PYTHONPROFILEIMPORTTIME="1").stderr.splitlines()
    for line in (line for line in told if line.startswith("import time:")):
        own, _, name = line.removeprefix("import time:").split("|")
        if own.strip().isdigit():
            package = name.split(".")[0].strip()
            found[package] += int(own)
            modules[package] += 1
    rest = sum(found.values()) - sum(count for _, count in found.most_common(TOP))
    lines = [f"{own / 1e3:8.1f} ms  {modules[package]:4} modules  {package}" for package, own in found.most_common(TOP)]
    return ["imports, by package", *lines, f"{rest / 1e3:8.1f} ms  {len(found) - TOP:4} packages more"]
