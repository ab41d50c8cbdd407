"""`holdfast demo --page`: the page shows the order of the demo, from its first step on."""

from __future__ import annotations

import http.client
import json
import re
import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.integration.demo_place import PATIENCE, Place, lines_until

LINK = re.compile(r"page: (http://127\.0\.0\.1:(\d+)/)run\?id=order-1#code=(\S+)")


class Page:
    """What a browser does: exchanges the code for a cookie, then asks with it. Each time over a new connection, since
    the server closes idle ones."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._headers = {"Origin": f"http://127.0.0.1:{port}", "Content-Type": "application/json"}

    def sign_in(self, code: str) -> None:
        headers, _ = self._ask("POST", "/api/v1/session", json.dumps({"code": code}))
        self._headers["Cookie"] = str(headers["Set-Cookie"]).partition(";")[0]

    def get(self, path: str) -> Any:
        _, body = self._ask("GET", path)
        return json.loads(body)

    def _ask(self, method: str, path: str, body: str | None = None) -> tuple[http.client.HTTPMessage, bytes]:
        with closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)) as server:
            server.request(method, path, body, self._headers)
            answer = server.getresponse()
            content = answer.read()
            assert answer.status in {200, 201}, content
            return answer.headers, content


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_the_order_starts_when_the_page_is_opened_and_stays_to_be_looked_at(place: Place) -> None:
    """Promise: no run before the link is used; afterwards the page shows the take-over, until Ctrl-C."""
    with place.started("--fast", "--page", "--seed", "1") as process:
        shown = lines_until(process, "starts when you open it")
        found = LINK.search(shown)
        assert found is not None, shown
        page = Page(int(found[2]))
        page.sign_in(found[3])
        shown += lines_until(process, "until you press Ctrl-C")
        assert "SIGKILL: worker-1" in shown
        assert shown.index("page: ") < shown.index("order-1 started")

        runs = {run["id"]: run for run in page.get("/api/v1/runs")["runs"]}
        assert runs["order-1"]["status"] == "completed"
        story = json.dumps(page.get("/api/v1/runs/order-1/story"))
        assert {"worker-1", "worker-2"} <= set(re.findall(r"worker-\d", story))
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
    assert not place.left_behind()


@pytest.mark.parametrize("words", [("--page", "--json"), ("--open",)])
def test_options_that_contradict_each_other_are_refused(place: Place, words: tuple[str, ...]) -> None:
    answer = place.run(*words)
    assert answer.returncode == 2
    assert "--page" in answer.stderr
    assert not place.left_behind()
