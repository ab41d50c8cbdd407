"""The NATS server of the tests, run by a guard (`tests.support.guard`); and clusters for tests about faults."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.guard import free_port, guard, is_listening, program, shifted_date, stop, tied, wait_until


class NatsServer:
    """One server in a folder. `peers`: of a cluster, the names of all servers with their ports of peers."""

    def __init__(
        self,
        folder: Path,
        *,
        name: str = "one",
        peer_port: int = 0,
        peers: Mapping[str, int] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.folder = folder
        self.name = name
        self.port: int = free_port()
        self.peer_port = peer_port
        self.peers = peers or {}
        self.options = dict(options or {})
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        return self.folder / f"data-{self.name}"

    def make(self) -> None:
        """Nothing: it makes its folder itself."""

    def start(self, *, is_waited_for: bool = True) -> None:
        """Started, and listening."""
        settings: dict[str, Any] = {
            "server_name": self.name,
            "host": "127.0.0.1",
            "port": self.port,
            "jetstream": {"store_dir": str(self.data), "max_file_store": 1 << 30},
        }
        if self.peers:
            routes = [f"nats://127.0.0.1:{port}" for name, port in self.peers.items() if name != self.name]
            settings["cluster"] = {"name": "tests", "host": "127.0.0.1", "port": self.peer_port, "routes": routes}
        file = self.folder / f"{self.name}.conf"  # JSON is read as configuration
        file.write_text(json.dumps({**settings, **self.options}), encoding="utf-8")
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                tied([program("nats-server"), "--config", str(file)]),
                cwd=self.folder,
                env={"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "TZ": "UTC", **shifted_date()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        if is_waited_for:
            wait_until(lambda: is_listening(self.port), self.process, "nats-server")

    def pause(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def wipe(self) -> None:
        """A server that does not run loses what it kept."""
        shutil.rmtree(self.data, ignore_errors=True)

    def stop(self) -> None:
        """Ended gracefully."""
        process, self.process = self.process, None
        stop(process)


if __name__ == "__main__":
    guard(NatsServer)
