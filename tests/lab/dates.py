"""`python3 dev.py lab --date +400d`: the suite at another date, to find what only works today.

Only the date moves: libfaketime shifts the wall clock of every process that the suite starts, PostgreSQL's servers
included, by the same amount. The monotonic clock, by which everything waits, and the times of files stay as they are.

The suite runs on a copy of the library that leaves two things alone, because each makes a suite of this kind hang:

- Its hooks on condition variables share a lock. A process that forks while one of its threads is in such a hook leaves
  a child that waits for that lock forever. Nothing here waits by the wall clock, so nobody needs these hooks.
- Its semaphore in shared memory, which every process takes as it starts. One that is killed there stops all others.

Tests marked `today` are left out. They need an S3 server, which is a static program whose clock cannot be shifted, and
S3 refuses requests from another date.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path

from tests.command.stages import workers

ROOT = Path(__file__).resolve().parents[2]
UNITS = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
HOOKS = (b"\0pthread_cond_init\0", b"\0pthread_cond_destroy\0", b"\0pthread_cond_timedwait\0")
SEMAPHORE = b"/faketime_sem_%ld\0"
PROBE = """
import threading, time
began = time.monotonic()
threading.Event().wait(0.01)
print(time.time(), began, time.monotonic())
"""


class NoOtherDate(Exception):
    """The date could not be shifted; the message says why and what to do."""


def shift_of(word: str) -> timedelta:
    """What `--date` says: `+400d` and the like from now on, or a date or time (UTC unless it says otherwise)."""
    if found := re.fullmatch(r"([+-]\d+)([dhms])", word):
        return timedelta(**{UNITS[found[2]]: int(found[1])})
    try:
        moment = datetime.fromisoformat(word)
    except ValueError:
        raise NoOtherDate(f"--date {word}: give a shift (+400d, -40d, +90m) or a date (2028-02-29T12:00)") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - datetime.now(UTC)


@contextmanager
def shifted(shift: timedelta) -> Iterator[dict[str, str]]:
    """The environment of processes whose wall clock is off by `shift` from the one of this process."""
    with tempfile.TemporaryDirectory(prefix="holdfast-date-") as folder:
        Path(folder).chmod(0o755)  # PostgreSQL may run as another user
        library = Path(folder) / "libfaketime.so.1"
        library.write_bytes(without_locks(original().read_bytes()))
        environment = environment_of(shift, library, os.environ)
        prove(shift, environment)
        yield environment


def environment_of(shift: timedelta, library: Path, ours: Mapping[str, str]) -> dict[str, str]:
    """What to set, and everything else as it is. In a process that is shifted already, the shifts add up."""
    seconds = float(ours.get("FAKETIME", "0")) + shift.total_seconds()
    return {
        **ours,
        "LD_PRELOAD": str(library),
        "FAKETIME": f"{seconds:+f}",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_CACHE_DURATION": "2000000000",  # seconds: read FAKETIME once, since threads do not take turns at it
    }


def original() -> Path:
    """The library as its package brings it."""
    found = find_spec("libfaketime")
    if found is None or found.origin is None:
        raise NoOtherDate("libfaketime is not installed. It is in the test group on Linux and x86-64: run dev.py lab")
    return Path(found.origin).parent / "vendor" / "libfaketime" / "src" / "libfaketime.so.1"


def without_locks(library: bytes) -> bytes:
    """The library with the names of its hooks changed, so that nothing is linked with them, and a semaphore by a name
    that the system refuses, which the library takes for a system without semaphores."""
    for name in (*HOOKS, SEMAPHORE):
        if name not in library:
            raise NoOtherDate(f"libfaketime has changed: {name!r} is not in it. Bring tests/lab/dates.py up to date")
    for name in HOOKS:  # the names for the linker come first, those that the library itself looks up are left alone
        library = library.replace(name, name.replace(b"pthread", b"nothing"), 1)
    return library.replace(SEMAPHORE, SEMAPHORE.replace(b"/faketime_", b"/faketime/"))


def prove(shift: timedelta, environment: Mapping[str, str]) -> None:
    """Or a suite at today's date would pass, and one that waits by the wall clock would hang."""
    before = datetime.now(UTC).timestamp()
    command = [sys.executable, "-c", PROBE]
    try:
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)
    except subprocess.TimeoutExpired:
        raise NoOtherDate("this Python waits by the wall clock: take one built for glibc 2.30 or newer") from None
    words = ran.stdout.split()
    off = abs(float(words[0]) - before - shift.total_seconds()) if len(words) == 3 else shift.total_seconds()
    if ran.returncode != 0 or ran.stderr or off > 60:
        raise NoOtherDate(f"libfaketime does not shift the date of {sys.executable}:\n{ran.stdout}{ran.stderr}")


def main(shift: str, pytest_arguments: Sequence[str]) -> int:
    """Runs the suite, or the part that the arguments name, at another date; gives pytest's exit code."""
    seed = os.environ.get("HOLDFAST_TEST_SEED", "0")
    if seed == "random":
        seed = str(random.SystemRandom().randrange(2**32))
    try:
        with shifted(shift_of(shift)) as environment:
            moment = datetime.now(UTC) + shift_of(shift)
            print(f"== the suite on {moment:%A, %d %B %Y, %H:%M} UTC, seed {seed}", flush=True)
            command = [sys.executable, "-m", "pytest", *workers(), "-m", "not today", *pytest_arguments]
            seeds = {"HOLDFAST_TEST_SEED": seed, "PYTHONHASHSEED": seed}
            return subprocess.run(command, cwd=ROOT, env={**environment, **seeds}, check=False).returncode
    except NoOtherDate as problem:
        print(f"lab: {problem}")
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
