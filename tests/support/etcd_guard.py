"""The etcd of the tests, run by a guard (`tests.support.guard`); and clusters of their own for tests about faults.

Never SIGKILL: this version may lose consistency then. SIGTERM ends it, SIGSTOP pauses it.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support.guard import free_port, guard, is_listening, program, shifted_date, stop, tied, wait_until


class EtcdServer:
    """One member in a folder. `peers`: of a cluster, the names of all members with their ports of peers."""

    def __init__(
        self,
        folder: Path,
        *,
        name: str = "one",
        peer_port: int = 0,
        peers: dict[str, int] | None = None,
        options: Sequence[str] = (),
        scheme: str = "http",
    ) -> None:
        self.folder = folder
        self.name = name
        self.port: int = free_port()
        self.peer_port = peer_port or free_port()
        self.peers = peers or {name: self.peer_port}
        self.scheme = scheme
        self.options = list(options)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        return self.folder / f"data-{self.name}"

    def make(self) -> None:
        """Nothing: it makes its folder itself."""

    def start(self, *, is_waited_for: bool = True) -> None:
        """Started, and listening."""
        cluster = ",".join(f"{name}=http://127.0.0.1:{port}" for name, port in self.peers.items())
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                tied(
                    [
                        program("etcd"),
                        f"--name={self.name}",
                        f"--data-dir={self.data}",
                        f"--listen-client-urls={self.address}",
                        f"--advertise-client-urls={self.address}",
                        f"--listen-peer-urls=http://127.0.0.1:{self.peer_port}",
                        f"--initial-advertise-peer-urls=http://127.0.0.1:{self.peer_port}",
                        f"--initial-cluster={cluster}",
                        "--heartbeat-interval=50",
                        "--election-timeout=500",
                        "--unsafe-no-fsync",
                        "--log-level=error",
                        *self.options,
                    ]
                ),
                cwd=self.folder,
                env={"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "TZ": "UTC", **shifted_date()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        if is_waited_for:
            wait_until(lambda: is_listening(self.port), self.process, "etcd")

    def pause(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def wipe(self) -> None:
        """A member that does not run loses what it kept."""
        shutil.rmtree(self.data, ignore_errors=True)

    def stop(self) -> None:
        """Ended gracefully."""
        process, self.process = self.process, None
        stop(process)


if __name__ == "__main__":
    guard(EtcdServer)
