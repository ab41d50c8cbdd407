"""The S3 server of the tests, a SeaweedFS of its own, run by a guard (`tests.support.guard`)."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

from tests.support.guard import dies_with_us, free_port, guard, is_listening, program, shifted_date, stop, wait_until

KEY, SECRET = "test-key", "test-secret"
IDENTITIES = {
    "identities": [
        {
            "name": "holdfast",
            "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        },
        {"name": "anonymous", "actions": ["Admin"]},  # tests make their buckets without signing
    ]
}


class S3Server:
    """One SeaweedFS in a folder, on a port of S3 and three of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port: int = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.internal: dict[str, int] = {}

    def make(self) -> None:
        """A folder for its data, and who may enter."""
        (self.folder / "data").mkdir()
        (self.folder / "identities.json").write_text(json.dumps(IDENTITIES), encoding="utf-8")

    def start(self) -> None:
        """Started, and answering."""
        ports = {name: free_port() for name in ("master", "volume", "filer")}
        words = [f"-{name}.port={port}" for name, port in ports.items()]
        self.internal = {name: free_port() for name in ("master", "volume", "filer", "s3")}
        grpc = [f"-{name}.port.grpc={port}" for name, port in self.internal.items()]
        with (self.folder / "server.log").open("wb") as log:
            self.process = subprocess.Popen(
                [
                    program("weed"),
                    "server",
                    f"-dir={self.folder / 'data'}",
                    "-ip=127.0.0.1",
                    "-ip.bind=127.0.0.1",
                    "-volume.max=500",  # a bucket takes several, and each process of the tests has buckets of its own
                    "-master.volumePreallocate=false",
                    "-master.volumeSizeLimitMB=64",
                    "-filer",
                    "-s3",
                    f"-s3.port={self.port}",
                    "-s3.port.iceberg=0",
                    "-s3.port.lance=0",
                    "-master.telemetry=false",
                    f"-filer.localSocket={self.folder / 'filer.sock'}",
                    f"-s3.localSocket={self.folder / 's3.sock'}",
                    f"-s3.config={self.folder / 'identities.json'}",
                    *words,
                    *grpc,
                ],
                cwd=self.folder,
                env={"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "TZ": "UTC", **shifted_date()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=lambda: dies_with_us(signal.SIGKILL),  # noqa: PLW1509 - this process has one thread
            )
        wait_until(lambda: is_listening(self.port), self.process, "SeaweedFS")

    def stop(self) -> None:
        """Ended at once: asked gracefully, its parts wait for each other forever, and its data are of no use now."""
        process, self.process = self.process, None
        stop(process, signal.SIGKILL)
        for name, port in self.internal.items():
            Path(f"/tmp/seaweedfs-{name}-grpc-{port}.sock").unlink(missing_ok=True)


if __name__ == "__main__":
    guard(S3Server)
