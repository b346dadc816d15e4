"""The metadata `authorization` of a call."""

from __future__ import annotations

import base64
import json

import pytest

from bmq.gateway.cluster_config import client_config, require_usable
from bmq.gateway.credentials import ANONYMOUS, Credentials, credentials_of, token_end_s, token_subject
from bmq.gateway.failure import GatewayFailed
from bmq.gateway.settings import GatewaySettings

pytestmark = pytest.mark.unit


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


def token_of(claims: dict[str, object]) -> str:
    part = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{part}.c2ln"


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ((), ANONYMOUS),
        ((("user-agent", "x"),), ANONYMOUS),
        ((("authorization", basic("alice:se:cret")),), Credentials("alice", "se:cret")),
        ((("Authorization", basic("ä:ö").replace("Basic", "bAsIc")),), Credentials("ä", "ö")),
        ((("authorization", "Bearer a.b.c"),), Credentials(token="a.b.c")),
        ((("authorization", b"Bearer a.b.c"),), Credentials(token="a.b.c")),
    ],
)
def test_what_is_taken(metadata: tuple[tuple[str, str | bytes], ...], expected: Credentials) -> None:
    assert credentials_of(metadata) == expected


@pytest.mark.parametrize(
    "value",
    [
        "",
        "Basic",
        "Basic !!",
        basic("nocolon"),
        basic(":password"),
        basic("a\0b:c"),
        "Bearer ",
        "Digest x",
        "Bearer a b",
    ],
)
def test_another_form_is_refused_without_repeating_it(value: str) -> None:
    with pytest.raises(GatewayFailed) as failed:
        credentials_of([("authorization", value)])
    assert failed.value.status == "UNAUTHENTICATED"
    assert not value or value.split()[-1] not in str(failed.value) or value in ("Basic", "Bearer ")


def test_two_authorizations_and_one_that_is_too_long_are_refused() -> None:
    with pytest.raises(GatewayFailed, match="2 authorizations"):
        credentials_of([("authorization", "Bearer a"), ("authorization", "Bearer b")])
    with pytest.raises(GatewayFailed, match="more than"):
        credentials_of([("authorization", "Bearer " + "a" * 20_000)])


def test_no_secret_is_shown() -> None:
    assert "secret" not in repr(Credentials("alice", "secret", "secret"))
    assert Credentials("a", "b").key(b"salt") != Credentials("a", "c").key(b"salt")
    assert Credentials("a", "b").key(b"salt") == Credentials("a", "b").key(b"salt")
    assert Credentials("a", "b").key(b"salt") != Credentials("a", "b").key(b"other")


def test_the_end_and_the_subject_of_a_token() -> None:
    assert token_end_s(token_of({"exp": 12}), 99.0) == 12.0
    assert token_subject(token_of({"sub": "bob"})) == "bob"
    for other in ("x", "a.b.c", token_of({}), token_of({"exp": "soon"}), "a.%%%.c"):
        assert token_end_s(other, 99.0) == 99.0
        assert token_subject(other) == "bearer"


def test_a_login_and_the_cluster_have_to_fit() -> None:
    require_usable(ANONYMOUS, "PLAINTEXT")
    require_usable(Credentials("a", "b"), "SASL_SSL")
    with pytest.raises(GatewayFailed, match="needs a login"):
        require_usable(ANONYMOUS, "SASL_PLAINTEXT")
    with pytest.raises(GatewayFailed, match="takes no logins"):
        require_usable(Credentials("a", "b"), "SSL")


def test_the_clients_settings_of_a_user_and_of_a_token() -> None:
    settings = GatewaySettings(security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", bootstrap="h:1")
    config = client_config(settings, Credentials("a", "b"), lambda: 10.0)
    assert (config["sasl.mechanism"], config["sasl.username"], config["sasl.password"]) == ("PLAIN", "a", "b")
    token = token_of({"exp": 12, "sub": "bob"})
    now = 10.0
    config = client_config(settings, Credentials(token=token), lambda: now)
    assert config["sasl.mechanism"] == "OAUTHBEARER"
    assert config["oauth_cb"]("") == (token, 12.0, "bob", {})
    now = 12.0
    with pytest.raises(ValueError, match="has ended"):
        config["oauth_cb"]("")
