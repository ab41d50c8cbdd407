"""One server of a lease manager, and what tests do to it: pause it, wipe it, stop it."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from tests.support.guard import free_port, is_listening, program, shifted_date, stop, tied, wait_until


class LeaseServer:
    """One server in a folder. `peers`: of a cluster, the names of all servers with the ports they use among them."""

    PROGRAM: ClassVar[str]

    def __init__(
        self,
        folder: Path,
        scheme: str,
        *,
        name: str = "one",
        peer_port: int = 0,
        peers: Mapping[str, int] | None = None,
    ) -> None:
        self.folder = folder
        self.scheme = scheme
        self.name = name
        self.port: int = free_port()
        self.peer_port = peer_port
        self.peers = peers or {}
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        return self.folder / f"data-{self.name}"

    def make(self) -> None:
        """Nothing: it makes its folder itself."""

    def arguments(self) -> Sequence[str]:
        """What the program is started with."""
        raise NotImplementedError

    def start(self, *, is_waited_for: bool = True) -> None:
        """Started, and listening."""
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                tied([program(self.PROGRAM), *self.arguments()]),
                cwd=self.folder,
                env={"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "TZ": "UTC", **shifted_date()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        if is_waited_for:
            wait_until(lambda: is_listening(self.port), self.process, self.PROGRAM)

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
