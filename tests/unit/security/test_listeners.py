"""Listeners under Kafka's names: what is served, and the sentence for what cannot be."""

from __future__ import annotations

import pytest

from bmq.security.listener_security import SecurityProtocol
from bmq.security.listeners import WrongListeners, config_of, listeners_of

pytestmark = pytest.mark.unit

LISTEN = ("127.0.0.1", 9092)
TWO = "PLAINTEXT://127.0.0.1:9092, outside://[::1]:9093"
MAP = {"listener.security.protocol.map": "OUTSIDE:SSL"}


def test_without_listeners_there_is_the_one_of_the_setting() -> None:
    (only,) = listeners_of({}, LISTEN, ("bmq.example", 19092))
    assert (only.name, only.address, only.advertised) == ("PLAINTEXT", LISTEN, ("bmq.example", 19092))
    assert only.security.protocol is SecurityProtocol.PLAINTEXT


def test_each_has_its_name_address_protocol_and_what_clients_are_told() -> None:
    configs = {"listeners": TWO, "advertised.listeners": "OUTSIDE://b.example:443", **MAP}
    inside, outside = listeners_of(configs, LISTEN, None)
    assert (inside.name, inside.address, inside.advertised) == ("PLAINTEXT", ("127.0.0.1", 9092), None)
    assert (outside.name, outside.address, outside.advertised) == ("OUTSIDE", ("::1", 9093), ("b.example", 443))
    assert outside.security.protocol is SecurityProtocol.SSL


@pytest.mark.parametrize(
    ("configs", "why"),
    [
        ({"listeners": "PLAINTEXT:9092"}, "'PLAINTEXT:9092', which is not NAME://HOST:PORT"),
        ({"listeners": "PLAINTEXT://h:65536"}, "not NAME://HOST:PORT"),
        ({"listeners": "A://h:1,a://h:2"}, "has A more than once"),
        ({"listeners": "PLAINTEXT://h:1,SSL://h:1"}, "two listeners at one address"),
        ({"listeners": "INTERNAL://h:1", "listener.security.protocol.map": "INTERNAL:SSL"}, "a name that is taken"),
        ({"listeners": "OUTSIDE://h:1"}, "no protocol for the listener OUTSIDE"),
        ({"listeners": "SSL://h:1", "advertised.listeners": "SSL://h:1,B://h:2"}, "has B, which listeners does not"),
        ({"advertised.listeners": "PLAINTEXT://h:1"}, "needs listeners"),
        ({"listeners": TWO, "listener.security.protocol.map": "OUTSIDE:TLS"}, "is not NAME:PROTOCOL"),
        ({"listener.name.other.ssl.keystore.location": "x"}, "of a listener OTHER, which there is not"),
        ({"listener.name.plaintext.num.partitions": "1"}, "is not one of this release"),
    ],
)
def test_what_cannot_be_is_one_sentence(configs: dict[str, str], why: str) -> None:
    with pytest.raises(WrongListeners, match=why):
        listeners_of(configs, LISTEN, None)


def test_a_listeners_own_config_beats_the_plain_one_and_a_mechanisms_both() -> None:
    configs = {"k": "plain", "listener.name.a.k": "own", "listener.name.a.scram-sha-256.k": "mechanism"}
    assert config_of(configs, "A", "k") == "own"
    assert config_of(configs, "B", "k") == "plain"
    assert config_of(configs, "A", "k", "SCRAM-SHA-256") == "mechanism"
    assert config_of(configs, "A", "k", "PLAIN") == "own"
    assert config_of(configs, "A", "other") is None
