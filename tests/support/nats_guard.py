"""The NATS server of the tests, run by a guard (`tests.support.guard`); and clusters for tests about faults."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.guard import guard
from tests.support.lease_server import LeaseServer


class NatsServer(LeaseServer):
    """One server, alone or of a cluster."""

    PROGRAM = "nats-server"

    def __init__(
        self,
        folder: Path,
        *,
        name: str = "one",
        peer_port: int = 0,
        peers: Mapping[str, int] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(folder, "nats", name=name, peer_port=peer_port, peers=peers)
        self.options = dict(options or {})

    def arguments(self) -> Sequence[str]:
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
        return ["--config", str(file)]


if __name__ == "__main__":
    guard(NatsServer)
