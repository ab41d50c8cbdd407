"""The PostgreSQL server of the tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = """
import socket

from tests.support.postgres_guard import can_change_number

before = can_change_number()
import grpc

with socket.create_server(("127.0.0.1", 0)) as silent:
    with grpc.insecure_channel("127.0.0.1:%d" % silent.getsockname()[1]) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=0.2)
        except grpc.FutureTimeoutError:
            pass
        print(before == can_change_number())
"""


def test_a_process_that_spoke_grpc_can_still_start_the_server() -> None:
    """Promise: root starts it under another number, whichever tests ran in this process before."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "True\n", done.stderr
