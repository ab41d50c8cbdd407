"""The PostgreSQL server of the tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = """
import socket
import sys
from pathlib import Path

import grpc

from tests.support.postgres_guard import Server

with socket.create_server(("127.0.0.1", 0)) as silent:
    with grpc.insecure_channel("127.0.0.1:%d" % silent.getsockname()[1]) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=0.2)
        except grpc.FutureTimeoutError:
            pass
        server = Server(Path(sys.argv[1]))
        server.make()
        server.start()
        server.stop()
        print("started")
"""


def test_a_process_that_spoke_grpc_can_still_start_a_server(tmp_path: Path) -> None:
    """Promise: also root, whichever tests ran in this process before. A library may start threads again in a forked
    child, where no process with threads may enter a namespace."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "started\n", done.stderr
