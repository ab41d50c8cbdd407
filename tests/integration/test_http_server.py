"""The HTTP API as processes: `dev`, `dashboard`, `worker --http`, their streams, and the order in which they stop."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import httpx
import pytest

SHOP = """
from holdfast import App, Signal, step, workflow

approved = Signal[bool]("approved")

@step
async def greet(name: str) -> str:
    return f"hello {name}"

@workflow
async def hello(name: str) -> str:
    said = await greet(name)
    await approved.wait()
    return said

app = App(workflows=[hello])
"""
PATIENCE = 90.0


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "shop.py").write_text(SHOP)
    return {**os.environ, "HOLDFAST_URL": f"sqlite:///{tmp_path / 'store.db'}", "PYTHONUNBUFFERED": "1"}


@contextmanager
def command(folder: Path, env: dict[str, str], *words: str) -> Iterator[subprocess.Popen[str]]:
    """A command of ours as a process, ended at the end."""
    line = [sys.executable, "-m", "holdfast", *words]
    process = subprocess.Popen(line, cwd=folder, env=env, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(PATIENCE)
        assert process.stderr is not None
        process.stderr.close()


def said(stream: IO[str] | None, pattern: str) -> re.Match[str]:
    """The first line that says so."""
    assert stream is not None
    seen: list[str] = []
    for line in stream:
        seen.append(line)
        if match := re.search(pattern, line):
            return match
    raise AssertionError(f"nobody said {pattern}: {''.join(seen)}")


def events(lines: Iterator[str]) -> Iterator[tuple[str, str, Any]]:
    """Server-sent events, as they come; `retry` has one of its own."""
    found: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            found[name] = value
        elif found:
            if "retry" in found:
                yield "retry", "", int(found["retry"])
            if "event" in found:
                yield found["event"], found.get("id", ""), json.loads(found["data"])
            found = {}


def test_dev_serves_the_page_and_stops_in_order(tmp_path: Path, env: dict[str, str]) -> None:
    """Promise: the link signs in once; a run started over HTTP is served by the worker; a reload signs nobody out; on
    SIGTERM streams end with a hint before the process does."""
    port = free_port()
    with command(tmp_path, env, "dev", "shop:app", "--http", f"127.0.0.1:{port}") as dev:
        code = said(dev.stderr, rf"page: http://127.0.0.1:{port}/#code=(\S+)")[1]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as http:
            head = {"origin": f"http://127.0.0.1:{port}"}
            signed = http.post("/api/v1/session", json={"code": code}, headers=head)
            assert (signed.status_code, signed.json()["actor"]) == (200, "dev")
            assert http.post("/api/v1/session", json={"code": code}, headers=head).status_code == 401
            body = {"workflow": "hello", "input": {"name": "ann"}, "id": "a/1"}
            assert http.post("/api/v1/runs", json=body, headers=head).status_code == 201
            with http.stream("GET", "/api/v1/runs/a%2F1/events") as stream:
                coming = events(stream.iter_lines())
                for _, _, told in coming:
                    if isinstance(told, dict) and "waiting for signal approved" in told["run"]["waiting"]:
                        break
                sent = http.post("/api/v1/runs/a%2F1/signal", json={"name": "approved", "value": True}, headers=head)
                assert sent.status_code == 200
                *_, last = coming
                assert last[::2] == ("end", {"status": "completed"})
            (tmp_path / "shop.py").write_text(SHOP.replace("hello {name}", "good morning {name}"))
            said(dev.stderr, "changed: restarting")
            said(dev.stderr, rf"page: http://127.0.0.1:{port}/$")
            assert http.get("/api/v1/session").json()["role"] == "admin"
            with http.stream("GET", "/api/v1/runs/events") as stream:
                coming = events(stream.iter_lines())
                assert next(coming)[::2] == ("retry", 1000)
                assert next(coming)[0] == "hello"
                dev.send_signal(signal.SIGTERM)
                rest = list(coming)
            assert [one[::2] for one in rest[-2:]] == [("retry", 3000), ("bye", {"reason": "shutdown"})]
            assert dev.wait(PATIENCE) == 0


def test_a_worker_serves_health_and_figures(tmp_path: Path, env: dict[str, str]) -> None:
    """Promise: health and readiness for everybody on loopback, figures for a token, nothing else; SIGTERM ends it."""
    made = subprocess.run(
        [sys.executable, "-m", "holdfast", "tokens", "add", "prometheus", "--role", "read"],
        cwd=tmp_path, env=env, capture_output=True, text=True, check=True,
    )  # fmt: skip
    token = made.stdout.strip()
    port = free_port()
    with command(tmp_path, env, "worker", "shop:app", "--http", f"127.0.0.1:{port}") as worker:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as http:
            said(worker.stderr, "health, readiness and metrics are at")
            assert http.get("/ready").json()["ok"] is True
            assert http.get("/health").json() == {"ok": True}
            assert http.get("/metrics").status_code == 401
            head = {"authorization": f"Bearer {token}"}
            assert "holdfast_workers 1" in http.get("/metrics", headers=head).text
            assert http.get("/api/v1/runs", headers=head).status_code == 404
            assert http.get("/", headers=head).status_code == 404
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(PATIENCE) == 0


@pytest.mark.parametrize("words", [("dashboard", "shop:app"), ("worker", "shop:app")], ids=lambda words: words[0])
def test_it_refuses_to_listen_for_everybody_without_a_token(
    tmp_path: Path, env: dict[str, str], words: tuple[str, ...]
) -> None:
    """Promise: beyond loopback it does not start without a token, and says what to do."""
    line = [sys.executable, "-m", "holdfast", *words, "--http", f"0.0.0.0:{free_port()}"]
    ended = subprocess.run(line, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode == 1
    assert "holdfast tokens add NAME --role read" in " ".join(ended.stderr.split())
