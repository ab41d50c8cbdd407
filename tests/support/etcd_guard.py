"""The etcd of the tests, run by a guard (`tests.support.guard`); and clusters of their own for tests about faults.

Never SIGKILL: this version may lose consistency then. SIGTERM ends it, SIGSTOP pauses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.support.guard import free_port, guard
from tests.support.lease_server import LeaseServer


class EtcdServer(LeaseServer):
    """One member, alone or of a cluster."""

    PROGRAM = "etcd"

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
        peer_port = peer_port or free_port()
        super().__init__(folder, scheme, name=name, peer_port=peer_port, peers=peers or {name: peer_port})
        self.options = list(options)

    def arguments(self) -> Sequence[str]:
        cluster = ",".join(f"{name}=http://127.0.0.1:{port}" for name, port in self.peers.items())
        return [
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


if __name__ == "__main__":
    guard(EtcdServer)
