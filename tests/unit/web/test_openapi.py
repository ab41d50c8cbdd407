"""The OpenAPI document, and every operation in it tried with what it allows and what it does not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi import checks

from holdfast import App
from holdfast.web.asgi import Server
from holdfast.web.openapi import openapi
from holdfast.web.table import ROUTES
from holdfast.web.tokens import GivenTokens, new_token
from tests.support.examples import count
from tests.unit.web.conftest import approval, fails, hello, payment

CHECKS = [
    schemathesis.checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
TOKENS = GivenTokens()
TOKEN, SECRET = new_token("robot", "admin")
TOKENS.add(TOKEN)


def test_every_route_is_documented_once() -> None:
    """Promise: path, method, parameters, body, answers and problems of each."""
    told = openapi(ROUTES)
    assert sum(len(methods) for methods in told["paths"].values()) == len(ROUTES) + 2
    names = [operation["operationId"] for methods in told["paths"].values() for operation in methods.values()]
    assert len(set(names)) == len(names)
    for route in ROUTES:
        operation = told["paths"][route.path][route.method.lower()]
        assert {"401", "403", "429"} <= set(operation["responses"])
        assert ("requestBody" in operation) == (route.body is not None)


def document() -> dict[str, object]:
    """Without streams, which never end: they have tests of their own."""
    return openapi(tuple(route for route in ROUTES if route.media_type != "text/event-stream"))


schema = schemathesis.openapi.from_dict(document())


Send = Callable[[schemathesis.Case[Any]], httpx.Response]


@pytest.fixture(scope="module")
def send() -> Iterator[Send]:
    """Sends a case to the server on an event loop of this thread. schemathesis itself asks through another thread, and
    each hand-over waits until the machine gets to it."""
    app = App("memory://", workflows=[hello, approval, payment, fails])
    transport = httpx.ASGITransport(Server(app, tokens=TOKENS, allowed_hosts=["*"]), raise_app_exceptions=False)
    client = httpx.AsyncClient(transport=transport, trust_env=False)
    with asyncio.Runner() as runner:

        def sent(case: schemathesis.Case[Any]) -> httpx.Response:
            made = requests.Request(**case.as_transport_kwargs(base_url="http://127.0.0.1:7070")).prepare()
            assert made.body is None or isinstance(made.body, str | bytes)
            headers = {name: str(value) for name, value in made.headers.items()}
            return runner.run(
                client.send(httpx.Request(str(made.method), str(made.url), headers=headers, content=made.body))
            )

        yield sent
        runner.run(client.aclose())
        runner.run(app.close())


@schema.parametrize()
@pytest.mark.slow
@pytest.mark.examples
@settings(max_examples=count(100, few=4), deadline=None, suppress_health_check=list(HealthCheck))
def test_every_operation_answers_as_documented(case: schemathesis.Case[Any], send: Send) -> None:
    """Promise: no 5xx, no status, content type or shape that is not documented."""
    case.headers["Authorization"] = f"Bearer {SECRET}"
    case.validate_response(send(case), checks=CHECKS)
