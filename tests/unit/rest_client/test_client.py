"""A login goes with each request to every node, and never to an address without encryption behind an encrypted one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from bmq.rest_client.client import NoUrl, RestClient, why_no_connection
from bmq.rest_client.login import LoginUnusable, RestLogin

pytestmark = pytest.mark.unit

Answer = Callable[[httpx.Request], httpx.Response]


def client(url: str, login: RestLogin, answer: Answer) -> RestClient:
    return RestClient(url, login, timeout=1.0, transport=httpx.MockTransport(answer))


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("first\n")
    path.chmod(0o600)
    return path


def test_the_login_goes_to_the_node_that_has_to_answer(token: Path) -> None:
    seen = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append((str(request.url), request.method, request.headers.get("authorization"), request.content))
        if request.url.host == "one":
            return httpx.Response(307, headers={"location": "https://two:8080/v1/rebalance?dry_run=true"})
        return httpx.Response(202, json={})

    asked = client("https://one:8080", RestLogin(token_file=str(token)), answer)
    assert asked.request("POST", "/v1/rebalance", params={"dry_run": "true"}, json={"a": 1}).status_code == 202
    assert seen == [
        (f"https://{host}:8080/v1/rebalance?dry_run=true", "POST", "Bearer first", b'{"a":1}')
        for host in ("one", "two")
    ]
    token.write_text("second\n")
    asked.request("GET", "/")
    assert seen[-1][2] == "Bearer second"


def test_a_password_is_basic(tmp_path: Path, token: Path) -> None:
    login = RestLogin(user="alice", password_file=str(token))
    answer = client("one:8080", login, lambda request: httpx.Response(200, text=request.headers["authorization"]))
    assert answer.request("GET", "/").text == "Basic YWxpY2U6Zmlyc3Q="


def test_nobody_is_sent_to_an_address_without_encryption(token: Path) -> None:
    seen = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.host)
        return httpx.Response(307, headers={"location": "http://two:8080/v1/nodes"})

    with pytest.raises(LoginUnusable, match="one:8080 sends its clients to http://two:8080, which is not encrypted"):
        client("https://one:8080", RestLogin(token_file=str(token)), answer).request("GET", "/v1/nodes")
    assert seen == ["one"]


def test_a_circle_of_redirections_ends() -> None:
    circle = client("one:1", RestLogin(), lambda request: httpx.Response(307, headers={"location": str(request.url)}))
    with pytest.raises(httpx.TooManyRedirects):
        circle.request("GET", "/")


@pytest.mark.parametrize("url", ["http://alice:geheim@one:1", "ftp://one", "http://alice:geheim", "http://one:port"])
def test_an_address_of_another_form_is_refused(url: str) -> None:
    with pytest.raises(NoUrl) as refused:
        RestClient(url, timeout=1.0)
    assert "geheim" not in str(refused.value)


def test_failures_of_tls_say_what_to_change() -> None:
    refused = "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate (_ssl.c:1006)"
    for text, expected in (
        (refused, "its certificate is refused: self-signed certificate; name its authority"),
        ("[SSL: WRONG_VERSION_NUMBER] wrong version number", "it does not speak TLS: use http://"),
        ("[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] tlsv13", "it wants a client certificate"),
    ):
        assert (why_no_connection(httpx.ConnectError(text)) or "").startswith(expected)
    assert why_no_connection(httpx.ConnectError("refused")) is None
