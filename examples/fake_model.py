"""A language model that is no model: it answers on loopback, in JSON lines, as a streaming API does.

The first time it asks for a tool; once it sees the tool's answer, it finishes. `breaks`: how often it hangs up in the
middle of an answer first.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def fake_model(breaks: int = 0) -> Generator[str]:
    """Serves until the block ends; gives the address."""
    left = [breaks]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answers = [message["text"] for message in asked["messages"] if message["role"] == "tool"]
            lines = [
                {"text": part} for part in ("The weather ", "is ", "fine: " + answers[-1] if answers else "unknown. ")
            ]
            if not answers:
                lines.append({"tool": "weather", "argument": "Kiel"})
            if left[0]:
                left[0] -= 1
                lines, broken = lines[:2], 1
            else:
                broken = 0
            body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
            self.send_response(200)
            self.send_header("Content-Length", str(len(body) + broken))  # one byte that never comes
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
