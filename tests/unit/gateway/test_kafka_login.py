"""A client's side of the logins, against the server's side that is tested with other clients."""

from __future__ import annotations

import base64

import pytest

from bmq.gateway.credentials import Credentials
from bmq.gateway.failure import GatewayFailed
from bmq.gateway.kafka_links import addresses
from bmq.gateway.kafka_login import login, mechanism_of
from bmq.security.sasl.scram_keys import SHA_256, SHA_512, ScramMechanism
from bmq.security.sasl.steps import Accepted, Challenge, Rejected
from tests.unit.security.sasl.scram_client import keys
from tests.unit.security.sasl.test_scram import server

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
@pytest.mark.parametrize("user", ["alice", "a,b=c", "müller"])
def test_scram_is_accepted_and_proves_the_server(mechanism: ScramMechanism, user: str) -> None:
    scram = server(keys(user, "p=a,ß", mechanism), mechanism=mechanism)
    exchange = login(Credentials(user, "p=a,ß"), mechanism.name, "clientnonce")
    challenge = scram.step(next(exchange))
    assert isinstance(challenge, Challenge)
    accepted = scram.step(exchange.send(challenge.data))
    assert isinstance(accepted, Accepted)
    assert accepted.user == user
    with pytest.raises(StopIteration):
        exchange.send(accepted.data)


def test_a_wrong_password_is_refused_and_a_server_that_knows_no_key_too() -> None:
    scram = server(keys("alice", "right"))
    exchange = login(Credentials("alice", "wrong"), SHA_256.name, "n")
    challenge = scram.step(next(exchange))
    assert isinstance(challenge, Challenge)
    assert isinstance(scram.step(exchange.send(challenge.data)), Rejected)
    with pytest.raises(GatewayFailed, match="not valid"):
        exchange.send(b"v=" + base64.b64encode(b"x" * 32))


@pytest.mark.parametrize(
    "challenge",
    [b"", b"r=other,s=YQ==,i=4096", b"r=nonce1,s=%%,i=4096", b"r=nonce1,s=YQ==,i=0", b"r=nonce1,s=YQ==,i=99999999"],
)
def test_a_challenge_of_another_form_ends_the_login(challenge: bytes) -> None:
    exchange = login(Credentials("alice", "secret"), SHA_256.name, "nonce")
    next(exchange)
    with pytest.raises(GatewayFailed) as failed:
        exchange.send(challenge)
    assert failed.value.status == "UNAUTHENTICATED"


def test_plain_and_bearer_are_one_message() -> None:
    assert list(login(Credentials("a", "b"), "PLAIN", "n")) == [b"\0a\0b"]
    token = Credentials(token="x.y.z")
    assert mechanism_of(token, "PLAIN") == "OAUTHBEARER"
    assert list(login(token, "OAUTHBEARER", "n")) == [b"n,,\x01auth=Bearer x.y.z\x01\x01"]


def test_addresses_of_a_bootstrap() -> None:
    assert addresses("a:1, b ,[::1]:2") == [("a", 1), ("b", 9092), ("::1", 2)]
