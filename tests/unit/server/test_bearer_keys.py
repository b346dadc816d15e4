"""Settings of bearer tokens: what stops the start, what is said aloud, and where keys are read."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path

import pytest
import structlog

from bmq.metadata.broker_configs import BrokerConfigs
from bmq.metadata.config_keys import InvalidConfig
from bmq.security.bearer import BearerRefused, BearerUnavailable
from bmq.server import bearer_keys
from bmq.server.bearer_keys import bearer_verifier
from tests.fakes.clock import FakeClock
from tests.unit.security.oauth.issuer import AUDIENCE, ISSUER, Issuer

pytestmark = pytest.mark.unit

OAUTH = "sasl.oauthbearer"


def configs(url: str, **changed: str | None) -> BrokerConfigs:
    """None takes one away; underscores stand for dots."""
    usual = {
        f"{OAUTH}.jwks.endpoint.url": url,
        f"bmq.{OAUTH}.allowed.urls": f"file:///other,{url}",
        f"{OAUTH}.expected.issuer": ISSUER,
        f"{OAUTH}.expected.audience": f"other, {AUDIENCE}",
    }
    named = {name.replace("_", "."): value for name, value in changed.items()}
    return BrokerConfigs(static={name: value for name, value in {**usual, **named}.items() if value is not None})


def test_without_an_address_there_are_no_bearer_tokens() -> None:
    assert bearer_verifier(BrokerConfigs(), FakeClock()) is None


@pytest.mark.parametrize(
    ("url", "changed", "why"),
    [
        ("https://keys.example/jwks", {f"bmq_{OAUTH}_allowed_urls": "https://keys.example"}, "which is not in"),
        ("https://keys.example/jwks", {f"bmq_{OAUTH}_allowed_urls": None}, "which is not in"),
        ("http://keys.example/jwks", {}, "has to begin with https"),
        ("ftp://keys.example/jwks", {}, "has to begin with https"),
        ("file://host/jwks", {}, "has to begin with https"),
        ("https://keys.example/jwks", {f"{OAUTH}_expected_issuer": None}, "expected.issuer is not set: any token"),
        ("https://keys.example/jwks", {f"{OAUTH}_expected_audience": " , "}, "expected.audience is not set"),
        ("https://keys.example/jwks", {f"bmq_{OAUTH}_any_issuer": "true"}, "take one of them away"),
    ],
)
def test_what_would_open_the_door_stops_the_start(url: str, changed: dict[str, str | None], why: str) -> None:
    with pytest.raises(InvalidConfig, match=why):
        bearer_verifier(configs(url, **changed), FakeClock())


def test_waivers_are_said_at_each_start() -> None:
    waived = {
        f"{OAUTH}_expected_issuer": None,
        f"bmq_{OAUTH}_any_issuer": "true",
        f"{OAUTH}_expected_audience": None,
        f"bmq_{OAUTH}_any_audience": "true",
    }
    with structlog.testing.capture_logs() as logs:
        bearer_verifier(configs("https://keys.example/jwks", **waived), FakeClock())
    assert [(line["event"], line["waiver"]) for line in logs] == [
        ("bearer_tokens_of_any_kind", f"bmq.{OAUTH}.any.issuer"),
        ("bearer_tokens_of_any_kind", f"bmq.{OAUTH}.any.audience"),
    ]


async def test_keys_are_read_from_a_file(tmp_path: Path) -> None:
    issuer, path = Issuer(time.time()), tmp_path / "key set.json"
    verifier = bearer_verifier(configs(path.as_uri()), FakeClock(int(issuer.now_s * 1000)))
    assert verifier is not None
    with pytest.raises(BearerUnavailable):
        await verifier.verify(issuer.token())
    path.write_bytes(issuer.key_set())
    assert await verifier.verify(issuer.token()) == "alice"
    with pytest.raises(BearerRefused):
        await verifier.verify(issuer.token(aud="third"))


@pytest.mark.parametrize(
    ("head", "body", "is_good"),
    [
        (b"200 OK", None, True),
        (b"302 Found\r\nlocation: file:///etc/passwd", b"", False),
        (b"500 Broken", b"{}", False),
        (b"200 OK", b" " * (1024 * 1024 + 1), False),
        (b"200 OK", b"<html>", False),
    ],
)
async def test_keys_are_read_from_an_address(head: bytes, body: bytes | None, is_good: bool) -> None:
    issuer = Issuer(time.time())

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        data = issuer.key_set() if body is None else body
        writer.write(b"HTTP/1.1 %s\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % (head, len(data)) + data)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/jwks"
        verifier = bearer_verifier(configs(url), FakeClock(int(issuer.now_s * 1000)))
        assert verifier is not None
        if is_good:
            assert await verifier.verify(issuer.token("ES256")) == "alice"
        else:
            with pytest.raises(BearerUnavailable):
                await verifier.verify(issuer.token())


@pytest.mark.parametrize("is_listening", [False, True], ids=["nobody listens", "silent"])
async def test_an_address_that_is_not_reached_is_one_line_and_nothing_final(
    is_listening: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_listening:
        monkeypatch.setattr(bearer_keys, "READ_S_MAX", 0.05)
    issuer = Issuer(time.time())
    with socket.create_server(("127.0.0.1", 0)) as there:
        url = f"http://127.0.0.1:{there.getsockname()[1]}/jwks"
        if not is_listening:
            there.close()
        verifier = bearer_verifier(configs(url), FakeClock(int(issuer.now_s * 1000)))
        assert verifier is not None
        with structlog.testing.capture_logs() as logs, pytest.raises(BearerUnavailable):
            await verifier.verify(issuer.token())
    (line,) = logs
    assert line["event"] == "bearer_keys_not_read" and "\n" not in str(line)
    assert ("did not answer within" if is_listening else "is not reached") in str(line)
