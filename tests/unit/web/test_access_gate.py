"""Deny by default: every route, walked over the live application, without, with wrong, with too small a credential."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from holdfast import App, Schedule
from holdfast.errors import InvalidInput
from holdfast.web.asgi import Server
from holdfast.web.routes import Route
from holdfast.web.table import ROUTES
from holdfast.web.tokens import ROLES, allows
from tests.unit.web.conftest import HOST, ORIGIN, Api, Stream, hello, made_api

BODIES: dict[str, Any] = {
    "/api/v1/runs": {"workflow": "hello", "input": {"name": "x"}, "id": "new"},
    "/api/v1/runs/bulk": {"verb": "kill", "ids": ["r"], "dry_run": False, "expect": 1},
    "/api/v1/runs/{id}/signal": {"name": "approved", "value": True},
    "/api/v1/runs/{id}/update": {"name": "double", "value": 1, "timeout": "1ms"},
    "/api/v1/runs/{id}/approve": {"name": "approved"},
    "/api/v1/runs/{id}/drop": {"message": 1},
    "/api/v1/runs/{id}/replace": {"message": 1},
    "/api/v1/schedules/{name}/backfill": {"since": "2d"},
    "/api/v1/topics/publish": {"topic": "paid", "value": "x"},
}
IDS = [f"{route.method} {route.path}" for route in ROUTES]


def request_of(route: Route) -> tuple[str, str, Any]:
    """A request that would do something, if it were let through."""
    path = route.path.replace("{id}", "r").replace("{key}", "greet").replace("{name}", "nightly")
    if route.path.endswith("/stats"):
        path += "?workflow=hello"
    return route.method, path, None if route.body is None else BODIES.get(route.path, {})


async def everything(api: Api) -> Any:
    """All that a store holds of its runs and schedules."""
    client = await api.app.client()
    store = client.store
    runs = [view async for view in client.runs()]
    rows = [(run.id, run.status, run.turns, [row.body for row in await store.history(run.id)]) for run in runs]
    return rows, await store.schedules(after="", limit=10)


@pytest.fixture
async def filled(api: Api) -> Api:
    await api.post("runs", {"workflow": "approval", "input": {"name": "ann"}, "id": "r"}, status=201)
    await api.app.schedule(Schedule("nightly", hello("x"), cron="0 3 * * *"))
    return api


@pytest.mark.parametrize("route", ROUTES, ids=IDS)
async def test_nobody_gets_through_without_a_good_credential(filled: Api, route: Route) -> None:
    """Promise: 401 without, with a wrong, a malformed and a revoked token, and a forged session; nothing changes."""
    method, path, body = request_of(route)
    before = await everything(filled)
    revoked = next(token for token in filled.tokens.tokens() if token.name == "operate")
    filled.tokens.revoke(revoked.id)
    for headers in (
        {},
        {"authorization": "Bearer hf_wrong"},
        {"authorization": "Bearer"},
        {"authorization": f"Basic {filled.secrets['admin']}"},
        {"authorization": f"Bearer {filled.secrets['operate']}"},
        {"authorization": f"Bearer {revoked.digest}"},
        {"cookie": f"holdfast-7070=1.{revoked.id}.99999999999.x.AAAA", "origin": ORIGIN},
    ):
        answer = await filled.ask(method, path, body, role=None, **headers)
        assert answer.status_code == 401, (headers, answer.text)
        assert answer.headers["content-type"] == "application/problem+json"
        assert "www-authenticate" in answer.headers
    assert await everything(filled) == before


@pytest.mark.parametrize("route", ROUTES, ids=IDS)
async def test_a_role_that_is_too_small_is_refused(filled: Api, route: Route) -> None:
    """Promise: 403 for each smaller role, and nothing changes."""
    method, path, body = request_of(route)
    before = await everything(filled)
    for role in ROLES:
        if not allows(role, route.role):
            answer = await filled.ask(method, path, body, role=role)
            assert (answer.status_code, answer.json()["error"]) == (403, "Forbidden")
    assert await everything(filled) == before


@pytest.mark.parametrize("route", ROUTES, ids=IDS)
async def test_a_foreign_host_is_refused(filled: Api, route: Route) -> None:
    """Promise: another name that leads here gets nothing, whatever it shows: also the page, also health."""
    method, path, body = request_of(route)
    before = await everything(filled)
    for host in ("evil.example", "127.0.0.1.evil.example", "evil.example:7070", "localhost.evil", "0.0.0.0:7070"):
        for place in (path, "/", "/health"):
            answer = await filled.ask(method if place == path else "GET", place, body, host=host)
            assert (answer.status_code, answer.json()["error"]) == (403, "ForeignHost")
    assert await everything(filled) == before


CHANGING = [route for route in ROUTES if route.method != "GET"]


@pytest.mark.parametrize("route", CHANGING, ids=[route.path for route in CHANGING])
async def test_a_foreign_origin_changes_nothing(filled: Api, route: Route) -> None:
    """Promise: with a session the origin must be ours, to the port; with a token too, if there is one."""
    method, path, body = request_of(route)
    before = await everything(filled)
    cookie = await signed_in(filled)
    origins = ("http://evil.example", "http://127.0.0.1:7071", "http://localhost:7070", f"https://{HOST}", "null", "")
    for origin in origins:
        answer = await filled.ask(method, path, body, role=None, cookie=cookie, origin=origin)
        assert (answer.status_code, answer.json()["error"]) == (403, "ForeignOrigin"), origin
        answer = await filled.ask(method, path, body, origin=origin)
        assert (answer.status_code, answer.json()["error"]) == (403, "ForeignOrigin"), origin
    answer = await filled.ask(method, path, body, role=None, cookie=cookie)
    assert (answer.status_code, answer.json()["error"]) == (403, "ForeignOrigin")
    assert await everything(filled) == before


@pytest.mark.parametrize("route", CHANGING, ids=[route.path for route in CHANGING])
@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "text/json"]
)
async def test_what_a_form_can_send_is_refused(filled: Api, route: Route, kind: str) -> None:
    """Promise: JSON only, 415, and nothing changes."""
    method, path, body = request_of(route)
    before = await everything(filled)
    answer = await filled.ask(method, path, body or {}, content_type=kind)
    assert answer.status_code == 415, answer.text
    assert await everything(filled) == before


@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "PATCH", "TRACE", "CONNECT", "BREW"])
@pytest.mark.parametrize("path", ["/", "/api/v1/runs", "/api/v1/runs/r/kill", "/health", "/static/app.js"])
async def test_other_methods_are_refused(filled: Api, method: str, path: str) -> None:
    """Promise: 405, without a header that lets another origin in."""
    answer = await filled.ask(method, path, origin="http://evil.example")
    assert answer.status_code == 405
    assert not [name for name in answer.headers if name.startswith("access-control-")]


@pytest.mark.parametrize("route", CHANGING, ids=[route.path for route in CHANGING])
async def test_a_get_changes_nothing(filled: Api, route: Route) -> None:
    """Promise: what acts is not done by GET or HEAD."""
    _, path, _ = request_of(route)
    before = await everything(filled)
    for method in ("GET", "HEAD"):
        answer = await filled.ask(method, path)
        assert answer.status_code in {200, 404, 405}
    assert await everything(filled) == before


async def test_head_is_get_without_a_body(filled: Api) -> None:
    answer = await filled.ask("HEAD", "/api/v1/runs")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert (await filled.ask("HEAD", "/api/v1/runs", role=None)).status_code == 401


@pytest.mark.parametrize(
    "path",
    [
        "/api%2Fv1/runs", "/api/v1%2Fruns", "/api/v1/runs%2Fr", "/api/v1/runs%3Flimit=1", "/%61pi/v1/runs",
        "//api/v1/runs", "/api/v1//runs", "/api/v1/runs/", "/api/v1/runs//story", "/api/v1/./runs",
        "/api/v1/runs/../runs",
        "/static/..%2Fasgi.py", "/static/%2e%2e%2fasgi.py", "/static/../asgi.py", "/static/", "/static/.hidden",
        "/%2e%2e/etc/passwd", "/api/v1/runs/r%2Fstory%2F",
    ],
)  # fmt: skip
async def test_encoded_separators_lead_nowhere(filled: Api, path: str) -> None:
    """Promise: outside an id nothing is decoded, and no path leaves its folder."""
    async with Stream(filled.server, path, filled.secrets["admin"]) as answer:
        await answer.next()
    assert answer.status == 404


async def test_what_is_not_known_is_hidden_from_strangers(api: Api) -> None:
    """Promise: whoever shows nothing does not learn what is there."""
    for path in ("/api/v1/nothing", "/api/v2/runs", "/admin", "/metrics", "/api", "/api/v1/runs/r/story"):
        assert (await api.ask("GET", path, role=None)).status_code == 401


async def test_nothing_given_denies_everything() -> None:
    """Promise: `app.asgi()` lets no one in."""
    async with App("memory://", workflows=[hello]) as app:
        http = httpx.AsyncClient(transport=httpx.ASGITransport(app.asgi()), base_url=ORIGIN)
        async with http:
            for route in ROUTES:
                method, path, body = request_of(route)
                answer = await http.request(method, path, json=body, headers={"authorization": "Bearer hf_x"})
                assert answer.status_code in {401, 429}
            assert (await http.get("/api/v1/runs")).status_code == 401


async def test_failures_are_slowed_down_and_good_tokens_are_not(api: Api) -> None:
    """Promise: after many wrong tokens 429 with a time to wait; a good token still gets in."""
    answers = [await api.ask("GET", "/api/v1/runs", role=None, authorization="Bearer hf_x") for _ in range(15)]
    codes = [answer.status_code for answer in answers]
    assert (codes[0], codes[-1]) == (401, 429)
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert (await api.ask("POST", "/api/v1/session", {"token": "hf_x"}, role=None)).status_code == 429
    await api.get("runs")


async def test_authorize_decides() -> None:
    """Promise: a user's own answer is taken, name and role; it may be async; None is nobody."""

    async def authorize(scope: Any) -> tuple[str, str] | None:
        found = dict(scope["headers"]).get(b"x-user")
        return (found.decode(), "operate") if found else None

    async with App("memory://", workflows=[hello]) as app:
        api = made_api(app, authorize=authorize)
        async with api.http:
            assert (await api.ask("GET", "/api/v1/session", role=None)).status_code == 401
            shown = (await api.ask("GET", "/api/v1/session", role=None, x_user="ann")).json()
            assert (shown["actor"], shown["role"]) == ("ann", "operate")
            body = {"workflow": "hello", "input": {"name": "x"}}
            assert (await api.ask("POST", "/api/v1/runs", body, role=None, x_user="ann")).status_code == 403
            made = await api.ask("POST", "/api/v1/runs", body, role=None, x_user="ann", origin=ORIGIN)
            assert made.status_code == 201


async def test_it_mounts_under_a_path() -> None:
    """Promise: with a prefix, and inside another application that says its root path."""
    from starlette.applications import Starlette
    from starlette.routing import Mount

    async with App("memory://", workflows=[hello]) as app:
        api = made_api(app, prefix="/hold")
        async with api.http:
            assert (await api.ask("GET", "/hold/api/v1/runs")).status_code == 200
            assert (await api.ask("GET", "/api/v1/runs")).status_code == 404
            assert (await api.ask("GET", "/hold")).status_code == 200
        inner = made_api(app)
        outer = Starlette(routes=[Mount("/admin", app=inner.server)])
        async with httpx.AsyncClient(transport=httpx.ASGITransport(outer), base_url=ORIGIN) as http:
            head = {"authorization": f"Bearer {inner.secrets['admin']}"}
            made = await http.post(
                "/admin/api/v1/runs", json={"workflow": "hello", "input": {"name": "x"}, "id": "a/b"}, headers=head
            )
            assert made.status_code == 201
            assert (await http.get("/admin/api/v1/runs/a%2Fb", headers=head)).json()["run"]["id"] == "a/b"


def test_a_wrong_prefix_or_host_list_is_refused() -> None:
    wrong: list[dict[str, Any]] = [{"prefix": "hold"}, {"prefix": "/hold/"}, {"allowed_hosts": "shop.example"}]
    for options in wrong:
        with pytest.raises(InvalidInput):
            Server(App("memory://"), **options)


# -- sessions ----------------------------------------------------------------------------------------------------------


async def signed_in(api: Api, role: str = "admin") -> str:
    """The cookie of somebody who signed in with a token."""
    answer = await api.ask("POST", "/api/v1/session", {"token": api.secrets[role]}, role=None)
    assert answer.status_code == 200
    return answer.headers["set-cookie"].partition(";")[0]


async def test_a_token_is_exchanged_for_a_cookie(filled: Api) -> None:
    """Promise: HttpOnly, SameSite=strict, named after the port; it opens what its token opens, until it signs out."""
    answer = await filled.ask("POST", "/api/v1/session", {"token": filled.secrets["operate"]}, role=None)
    told = answer.headers["set-cookie"]
    assert told.startswith("holdfast-7070=")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {part.strip() for part in told.split(";")}
    assert filled.secrets["operate"] not in told
    assert answer.json()["role"] == "operate"
    cookie = told.partition(";")[0]
    assert (await filled.ask("GET", "/api/v1/runs", role=None, cookie=cookie)).status_code == 200
    done = await filled.ask("POST", "/api/v1/runs/r/pause", {}, role=None, cookie=cookie, origin=ORIGIN)
    assert (done.status_code, done.json()["run"]["status"]) == (200, "paused")
    out = await filled.ask("DELETE", "/api/v1/session", role=None, cookie=cookie, origin=ORIGIN)
    assert (out.status_code, "Max-Age=0" in out.headers["set-cookie"]) == (204, True)


async def test_a_session_ends_with_its_token(filled: Api) -> None:
    cookie = await signed_in(filled, "read")
    token = next(token for token in filled.tokens.tokens() if token.name == "read")
    filled.tokens.revoke(token.id)
    assert (await filled.ask("GET", "/api/v1/runs", role=None, cookie=cookie)).status_code == 401


async def test_a_changed_cookie_is_nobodys(filled: Api) -> None:
    """Promise: whatever is changed in it, it opens nothing."""
    cookie = await signed_in(filled, "read")
    name, _, value = cookie.partition("=")
    admin = next(token for token in filled.tokens.tokens() if token.name == "admin")
    parts = value.split(".")
    for changed in (
        ".".join([parts[0], admin.id, *parts[2:]]),
        ".".join([*parts[:2], "99999999999", *parts[3:]]),
        value[:-2] + ("AA" if value[-2:] != "AA" else "BB"),
        ".".join(parts[:-1]),
        "....",
        "",
        "é",
    ):
        answer = await filled.http.get("/api/v1/runs", headers={b"cookie": f"{name}={changed}".encode()})
        assert answer.status_code in {401, 429}, changed


async def test_a_code_opens_one_session(api: Api) -> None:
    """Promise: single use."""
    token = next(token for token in api.tokens.tokens() if token.name == "admin")
    code = api.server.service.gate.codes.new(token)
    first = await api.ask("POST", "/api/v1/session", {"code": code}, role=None)
    assert (first.status_code, first.json()["role"]) == (200, "admin")
    assert (await api.ask("POST", "/api/v1/session", {"code": code}, role=None)).status_code == 401
    assert (await api.ask("POST", "/api/v1/session", {}, role=None)).status_code == 422
    assert (await api.ask("POST", "/api/v1/session", {"token": "a", "code": "b"}, role=None)).status_code == 422


async def test_signing_in_is_for_our_own_page(api: Api) -> None:
    """Promise: another page cannot sign its visitor in."""
    body = {"token": api.secrets["admin"]}
    answer = await api.ask("POST", "/api/v1/session", body, role=None, origin="http://evil.example")
    assert answer.status_code == 403
    assert (await api.ask("POST", "/api/v1/session", body, role=None, content_type="text/plain")).status_code == 415


# -- the page ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/runs", "/run?id=a%2Fb", "/workflows", "/login"])
async def test_the_page_is_served_with_a_strict_policy(api: Api, path: str) -> None:
    """Promise: no inline script, no foreign origin, no frame; it needs no credential, for it holds no data."""
    answer = await api.ask("GET", path, role=None)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    again = await api.ask("GET", path, role=None, if_none_match=answer.headers["etag"])
    assert again.status_code == 304


async def test_health_and_readiness_need_no_credential(api: Api) -> None:
    for path in ("/health", "/ready"):
        answer = await api.ask("GET", path, role=None)
        assert (answer.status_code, answer.json()["ok"]) == (200, True)
    api.server.service.stopping.set()
    assert (await api.ask("GET", "/health", role=None)).status_code == 200
    assert (await api.ask("GET", "/ready", role=None)).status_code == 503
    assert (await api.ask("GET", "/api/v1/runs")).status_code == 503


@pytest.mark.parametrize("path", ["/api/v1/runs/health", "/api/v1/ready", "/runs/health", "/health/"])
async def test_only_the_whole_path_of_health_is_open(api: Api, path: str) -> None:
    """Promise: a path that ends like an open one, or looks like one, needs a token like any other."""
    assert (await api.ask("GET", path, role=None)).status_code == 401
