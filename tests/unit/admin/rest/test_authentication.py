"""Nobody gets past the REST address's login: each path of the pages, with every kind of wrong credentials."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from functools import cache
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry

from bmq.admin.rest.application import rest_application
from bmq.admin.rest.authentication import (
    Application,
    Authentication,
    PasswordRefused,
    PasswordUnavailable,
    Receive,
    Scope,
    Send,
    is_open,
)
from bmq.admin.rest.authorization import RIGHTS
from bmq.admin.rest.credentials import HEADER_BYTES_MAX
from bmq.admin.rest.principals import PEER, PRINCIPAL, STRANGER
from bmq.admin.rest.sources import RestSources
from bmq.proxy.access import Access
from bmq.security.authorizer import Decider
from bmq.security.bearer import BearerRefused
from tests.fakes.cluster_controller import image_of, topic_image
from tests.unit.admin.rest.cluster import NODES
from tests.unit.admin.rest.test_authorization import NAMES

pytestmark = pytest.mark.unit

RIGHT_TOKEN = "the-token"


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


class Users:
    """alice and bob, and a store that may be away."""

    def __init__(self) -> None:
        self.is_away = False

    async def verify(self, user: str, password: str) -> str:
        if self.is_away:
            raise PasswordUnavailable("the users are not known here yet")
        if (user, password) not in (("alice", "a:secret"), ("bob", "b")):
            raise PasswordRefused(f"a wrong password, or no such user as {user!r}")
        return user


class Tokens:
    """carol's token, and one that has expired."""

    async def verify(self, token: str) -> str:
        if token != RIGHT_TOKEN:
            raise BearerRefused("it has expired" if token == "old-token" else "unknown")
        return "carol"


class Connection:
    """What a request came by."""

    def __init__(self, principal: str | None) -> None:
        self.principal = principal
        self.is_known = False

    def known(self) -> None:
        self.is_known = True


class Fence:
    """An application behind a login; what got through is kept."""

    def __init__(
        self,
        app: Application | None = None,
        *,
        has_users: bool = True,
        has_tokens: bool = True,
        certificate: str | None = None,
        delay_s: float = 0.0,
    ) -> None:
        self.users = Users()
        self.passed: list[Mapping[str, Any]] = []
        self.refused: list[tuple[str, str]] = []
        self.connection = Connection(certificate)
        self._app = app or self._answer
        self.application = Authentication(
            self._through,
            passwords=self.users if has_users else None,
            tokens=Tokens() if has_tokens else None,
            failure_delay_s=delay_s,
            refused=lambda host, reason: self.refused.append((host, reason)),
        )

    async def _through(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.passed.append(scope)
        await self._app(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": str(scope[PRINCIPAL]).encode()})

    async def ask(
        self, method: str = "GET", path: str = "/v1/cluster", *, scheme: str = "http", **headers: str
    ) -> httpx.Response:
        async def with_connection(scope: Scope, receive: Receive, send: Send) -> None:
            await self.application({**scope, PEER: self.connection}, receive, send)

        transport = httpx.ASGITransport(app=with_connection, raise_app_exceptions=False, client=("10.0.0.7", 5))
        given = [(name.replace("_", "-"), value) for name, value in headers.items()]
        async with httpx.AsyncClient(transport=transport, base_url=f"{scheme}://node") as client:
            return await client.request(method, path, headers=given)


@cache
def guarded_pages() -> Application:
    """The real ones, with an authorizer; made once, since that takes a tenth of a second."""
    image = image_of(NODES, [topic_image("orders", 1, [1])])
    sources = RestSources(
        lambda: True, lambda: image, dict, CollectorRegistry(), access=Access(Decider(frozenset({"User:alice"})), dict)
    )
    return rest_application(sources)


def whole() -> Fence:
    return Fence(guarded_pages())


PATHS = [*RIGHTS, ("GET", "/v2/nodes"), ("HEAD", "/metrics"), ("OPTIONS", "/v1/nodes"), ("GET", "/docs/../metrics")]
WRONG = {
    "none": {},
    "a wrong password": {"authorization": basic("alice", "b")},
    "no such user": {"authorization": basic("mallory", "a:secret")},
    "a wrong token": {"authorization": "Bearer guessed"},
    "an expired token": {"authorization": "Bearer old-token"},
    "a token as a password": {"authorization": basic("carol", RIGHT_TOKEN)},
    "no Base64": {"authorization": "Basic ???"},
    "no colon": {"authorization": "Basic " + base64.b64encode(b"alice").decode()},
    "no UTF-8": {"authorization": "Basic " + base64.b64encode(b"alice:\xff").decode()},
    "another scheme": {"authorization": f"Negotiate {RIGHT_TOKEN}"},
    "a long header": {"authorization": "Bearer " + "A" * HEADER_BYTES_MAX},
    "nothing in it": {"authorization": ""},
}


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("kind", WRONG)
async def test_no_path_does_anything_without_a_right_login(kind: str, scheme: str) -> None:
    fence = whole()
    for method, path in PATHS:
        if is_open(method, path) and not WRONG[kind]:
            continue
        for word, value in NAMES.items():
            path = path.replace(word, value)
        response = await fence.ask(method, path, scheme=scheme, **WRONG[kind])
        assert (response.status_code, method, path) == (401, method, path)
        assert response.headers["connection"] == "close"
        offered = response.headers.get_list("www-authenticate")
        assert [one.partition(" ")[0] for one in offered] == ["Basic", "Bearer"]
        assert "alice" not in response.text and RIGHT_TOKEN not in response.text
    assert fence.passed == []
    assert not fence.connection.is_known


async def test_who_logs_in_has_only_his_own_rights() -> None:
    fence = whole()
    assert (await fence.ask(authorization=basic("alice", "a:secret"))).status_code == 200
    for mine in (basic("bob", "b"), f"Bearer {RIGHT_TOKEN}"):
        response = await fence.ask(authorization=mine)
        assert response.status_code == 403
    assert response.json()["detail"] == "User:carol has no right to DESCRIBE on the cluster"


async def test_probes_ask_for_health_without_a_login_and_learn_nothing_else() -> None:
    fence = whole()
    assert (await fence.ask("GET", "/v1/health")).json() == {"ready": True}
    assert fence.passed[0][STRANGER] is True
    assert not fence.connection.is_known  # its connection still has to say who it is
    assert not is_open("POST", "/v1/health")


async def test_the_console_is_there_without_a_login_and_what_it_asks_for_is_not() -> None:
    fence = whole()
    for path in ("/", "/console/app.js"):
        assert (await fence.ask("GET", path)).status_code == 200
        assert (await fence.ask("HEAD", path)).status_code == 200
        assert (await fence.ask("POST", path)).status_code == 401
    for path in ("/console/../metrics", "/console/%2e%2e/metrics", "/console/..%2fv1%2fcluster"):
        assert (await fence.ask("GET", path)).status_code in (401, 403, 404), path
    assert not fence.connection.is_known
    described = {(method, path) for method, path in RIGHTS if is_open(method, path)}
    files = {(method, path) for method in ("GET", "HEAD") for path in ("/", "/console/{name}")}
    assert described == {("GET", "/v1/health"), ("GET", "/v1/health/live"), *files}


@pytest.mark.parametrize(
    ("header", "principal"),
    [
        (basic("alice", "a:secret"), "User:alice"),
        (f"Bearer {RIGHT_TOKEN}", "User:carol"),
        (f"bearer  {RIGHT_TOKEN} ", "User:carol"),
    ],
)
async def test_a_right_login_passes(header: str, principal: str) -> None:
    fence = Fence()
    assert (await fence.ask(authorization=header)).text == principal
    assert fence.connection.is_known


async def test_a_certificate_is_a_login_and_a_password_beside_it_counts_more() -> None:
    fence = Fence(certificate="User:CN=probe")
    assert (await fence.ask()).text == "User:CN=probe"
    assert (await fence.ask(authorization=basic("bob", "b"))).text == "User:bob"
    assert (await fence.ask(authorization=basic("bob", "x"))).status_code == 401


async def test_without_logins_a_header_says_nothing() -> None:
    fence = Fence(has_users=False, has_tokens=False)
    assert (await fence.ask(authorization=basic("alice", "a:secret"))).text == "User:ANONYMOUS"
    assert fence.connection.is_known


async def test_a_scheme_that_is_not_offered_is_refused() -> None:
    response = await Fence(has_users=False).ask(authorization=basic("alice", "a:secret"))
    assert response.status_code == 401
    assert response.headers.get_list("www-authenticate") == ['Bearer realm="bmq"']
    response = await Fence().ask(authorization="Bearer guessed")
    assert 'Bearer realm="bmq", error="invalid_token"' in response.headers.get_list("www-authenticate")


async def test_while_users_are_not_known_a_login_is_not_wrong() -> None:
    fence = Fence()
    fence.users.is_away = True
    response = await fence.ask(authorization=basic("alice", "a:secret"))
    assert response.status_code == 503
    assert response.json()["detail"] == "logins cannot be checked now: the users are not known here yet"
    assert fence.passed == fence.refused == []


async def test_a_wrong_login_is_told_and_answered_late() -> None:
    fence = Fence(delay_s=0.05)
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    await fence.ask(authorization=basic("alice", "x"))
    assert loop.time() - began_s >= 0.05
    assert fence.refused == [("10.0.0.7", "its login at REST failed: a wrong password, or no such user as 'alice'")]


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("POST", {"origin": "http://evil.example"}, 403),
        ("POST", {"origin": "null"}, 403),
        ("DELETE", {"sec_fetch_site": "cross-site"}, 403),
        ("POST", {"sec_fetch_site": "same-site"}, 403),
        ("POST", {"sec_fetch_site": "same-origin", "origin": "https://behind.a.proxy"}, 200),
        ("POST", {"origin": "http://node"}, 200),
        ("POST", {}, 200),
        ("GET", {"origin": "http://evil.example"}, 200),
    ],
)
async def test_pages_of_other_sites_give_no_orders(method: str, headers: dict[str, str], status: int) -> None:
    for fence in (Fence(), Fence(certificate="User:CN=admin"), Fence(has_users=False, has_tokens=False)):
        response = await fence.ask(method, authorization=basic("bob", "b"), **headers)
        assert response.status_code == status
        assert len(fence.passed) == (status == 200)


async def test_only_http_requests_are_answered() -> None:
    fence = Fence()

    async def nothing(*_: Any) -> Any:
        raise AssertionError("it is answered")

    await fence.application({"type": "websocket", "path": "/", "headers": []}, nothing, nothing)
    assert fence.passed == []
