"""The HTTP API inside this process: an app on a store in memory, and a client that speaks ASGI."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Self

import httpx
import pytest

from holdfast import App, Retry, RunVar, Signal, Topic, step, workflow
from holdfast import Stream as PartStream
from holdfast.web.asgi import Server
from holdfast.web.tokens import GivenTokens, Role, new_token

HOST = "127.0.0.1:7070"
ORIGIN = f"http://{HOST}"
PATIENCE = 60.0

approved = Signal[bool]("approved")
paid = Topic[str]("paid")
progress = RunVar[str]("progress")
tokens = PartStream[str]("tokens")


@step
async def greet(name: str) -> str:
    return f"hello {name}"


@step(retry=Retry(2, first="1ms"))
async def breaks(text: str) -> None:
    raise ValueError(text)


@workflow
async def hello(name: str, size: int = 0) -> str:
    return await greet(name) + "x" * size


@workflow
async def approval(name: str) -> str:
    await greet(name)
    progress.set("asked")
    return f"{name}: {await approved.wait()}"


@workflow
async def payment() -> str:
    return await paid.wait()


@workflow
async def fails(text: str) -> None:
    await breaks(text)


@step
async def say(words: list[str]) -> None:
    for word in words:
        tokens.send(word)


@workflow
async def speech(words: list[str]) -> None:
    await say(words)


@dataclass
class Api:
    """A server, its tokens, and a client for each role."""

    app: App
    server: Server
    tokens: GivenTokens
    secrets: dict[str, str]
    http: httpx.AsyncClient

    async def ask(
        self, method: str, path: str, body: Any = None, *, role: str | None = "admin", **headers: str
    ) -> httpx.Response:
        """A request with the token of a role."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if role is not None:
            given.setdefault("authorization", f"Bearer {self.secrets[role]}")
        content = None if body is None else json.dumps(body).encode()
        if body is not None:
            given.setdefault("content-type", "application/json")
        return await self.http.request(method, path, content=content, headers=given)

    async def get(self, path: str, **more: Any) -> Any:
        """What a GET gives; it has to succeed."""
        answer = await self.ask("GET", f"/api/v1/{path}", **more)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def post(self, path: str, body: Any = None, *, status: int = 200, **more: Any) -> Any:
        """What a POST gives; it has to succeed."""
        answer = await self.ask("POST", f"/api/v1/{path}", {} if body is None else body, **more)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def work(self, *ids: str) -> None:
        """A worker of this process, until these runs have ended."""
        async with asyncio.timeout(PATIENCE), self.app.worker(poll="10ms"):
            for one in ids:
                await (await self.app.get(one)).wait()

    async def until_waiting(self, run: str, text: str) -> None:
        """A worker of this process, until the run says that."""
        async with asyncio.timeout(PATIENCE), self.app.worker(poll="10ms"):
            while text not in (await (await self.app.get(run)).view()).waiting:  # noqa: ASYNC110 a store
                await asyncio.sleep(0.005)


def made_api(app: App, **options: Any) -> Api:
    """A server with a token for each role, named after it."""
    tokens, secrets = GivenTokens(), dict[str, str]()
    roles: tuple[Role, ...] = ("read", "operate", "admin")
    for role in roles:
        token, secrets[role] = new_token(role, role)
        tokens.add(token)
    server = Server(app, tokens=tokens, **options)
    transport = httpx.ASGITransport(server, raise_app_exceptions=False)
    return Api(app, server, tokens, secrets, httpx.AsyncClient(transport=transport, base_url=ORIGIN))


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    """An app on a store in memory."""
    app = App("memory://", workflows=[hello, approval, payment, fails, speech])
    async with app:
        made = made_api(app)
        async with made.http:
            yield made


class Stream:
    """Reads server-sent events from the application itself, as they come."""

    def __init__(self, server: Server, path: str, secret: str, **headers: str) -> None:
        raw, _, query = path.partition("?")
        told = {"host": HOST, "authorization": f"Bearer {secret}", **headers}
        self._scope: dict[str, Any] = {
            "type": "http", "method": "GET", "scheme": "http", "path": raw, "raw_path": raw.encode(),
            "query_string": query.encode(), "root_path": "", "client": ("127.0.0.1", 1),
            "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in told.items()],
        }  # fmt: skip
        self._server = server
        self._parts: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._gone = asyncio.Event()
        self._text = ""
        self.status = 0
        self.retries: list[int] = []

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._gone.set()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        async def receive() -> dict[str, Any]:
            await self._gone.wait()
            return {"type": "http.disconnect"}

        async def send(told: Any) -> None:
            if told["type"] == "http.response.start":
                self.status = told["status"]
            elif told.get("body"):
                await self._parts.put(told["body"])

        await self._server(self._scope, receive, send)
        await self._parts.put(None)

    async def next(self, *, but: tuple[str, ...] = ()) -> tuple[str, str, Any] | None:
        """The next event: its name, id and data; None at the end."""
        async with asyncio.timeout(PATIENCE):
            while True:
                while "\n\n" not in self._text:
                    part = await self._parts.get()
                    if part is None:
                        return None
                    self._text += part.decode()
                one, _, self._text = self._text.partition("\n\n")
                fields = dict(line.split(": ", 1) for line in one.splitlines() if not line.startswith(":"))
                if "retry" in fields:
                    self.retries.append(int(fields["retry"]))
                if "event" in fields and fields["event"] not in but:
                    return fields["event"], fields.get("id", ""), json.loads(fields["data"])

    async def rest(self) -> list[tuple[str, str, Any]]:
        """Every event until the end."""
        found: list[tuple[str, str, Any]] = []
        while (one := await self.next()) is not None:
            found.append(one)
        return found
