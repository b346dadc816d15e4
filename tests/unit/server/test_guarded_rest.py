"""The REST address over real sockets: TLS, logins, what is bounded before a login, and files that change while it runs."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import structlog
import trustme

from bmq.admin.rest.principals import PRINCIPAL
from bmq.metadata.image import MetadataImage
from bmq.proxy.limits import ProxyLimits
from bmq.security.bearer_tokens import BadTokenFile, KeptToken, new_token
from bmq.server import rest_security
from bmq.server.guarded_rest import GuardedRest
from bmq.server.rest_server import HEADER_BYTES_MAX
from bmq.server.settings import Settings
from bmq.server.tls import WrongTls
from bmq.server.token_file import write_tokens
from tests.fakes.clock import FakeClock
from tests.unit.internode_client.waiting import until
from tests.unit.security.oauth.issuer import AUDIENCE, ISSUER, Issuer
from tests.unit.security.sasl.scram_client import keys as user_keys

pytestmark = pytest.mark.unit

AUTHORITY: Final = trustme.CA()
OTHERS: Final = trustme.CA()
JAAS: Final = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_ops="ops-secret";'
HTTPS: Final = {"protocol": "https"}


def write_certificate(directory: Path, authority: trustme.CA = AUTHORITY) -> None:
    made = directory / "new.pem"
    made.write_bytes(
        authority.issue_cert(
            "localhost", "127.0.0.1", organization_unit_name="nodes"
        ).private_key_and_cert_chain_pem.bytes()
    )
    made.chmod(0o600)
    made.replace(directory / "node.pem")


class Address:
    """A REST address that runs, and who is there to log in. Its page says who asked."""

    def __init__(
        self,
        directory: Path,
        security: Mapping[str, str],
        kafka: Mapping[str, str],
        own_address: str = "127.0.0.1:8080",
        **limits: int,
    ) -> None:
        write_certificate(directory)
        AUTHORITY.cert_pem.write_to_path(str(directory / "ca.pem"))
        own = {}
        if security.get("protocol") == "https":
            own = {
                "listener.name.rest.ssl.keystore.location": str(directory / "node.pem"),
                "ssl.truststore.location": str(directory / "ca.pem"),
            }
        settings = Settings(
            kafka={**own, **kafka}, rest=own_address, rest_security=security, proxy=ProxyLimits(**limits)
        )
        self.directory = directory
        self.clock = FakeClock()
        self.image = MetadataImage()
        self.are_users_known = True
        self.rest = GuardedRest(settings, lambda: self.image, lambda: self.are_users_known, self.clock)
        self.address = ("127.0.0.1", 0)
        self.scheme = self.rest.scheme

    async def page(self, scope: Any, receive: Any, send: Any) -> None:
        body = f"{scope[PRINCIPAL]} {scope['client'][0]}".encode()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.address[1]}"

    def context(self, certificate: trustme.LeafCert | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.directory / "ca.pem"))
        if certificate is not None:
            certificate.configure_cert(context)
        return context

    async def ask(
        self, auth: Any = None, certificate: trustme.LeafCert | None = None, **headers: str
    ) -> httpx.Response:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        async with httpx.AsyncClient(verify=self.context(certificate), trust_env=False) as client:
            return await client.get(f"{self.url}/v1/cluster", auth=auth, headers=given)

    async def dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(*self.address)


@asynccontextmanager
async def running(
    directory: Path,
    security: Mapping[str, str] | None = None,
    kafka: Mapping[str, str] | None = None,
    own_address: str = "127.0.0.1:8080",
    **limits: int,
) -> AsyncIterator[Address]:
    address = Address(directory, security or {}, kafka or {}, own_address, **limits)
    address.address = address.rest.bind("127.0.0.1", 0)
    await address.rest.start(address.page)
    try:
        yield address
    finally:
        await address.rest.stop()


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


async def test_as_before_nobody_has_to_log_in(tmp_path: Path) -> None:
    async with running(tmp_path) as address:
        assert (await address.ask()).text == "User:ANONYMOUS 127.0.0.1"


@pytest.mark.parametrize("protocol", ["http", "https"])
async def test_users_log_in_by_their_scram_keys_and_by_the_jaas_line(tmp_path: Path, protocol: str) -> None:
    security = {"protocol": protocol, "logins": "basic"}
    kafka = {
        "listener.name.rest.plain.sasl.jaas.config": JAAS,
        "connection.failed.authentication.delay.ms": "1",
    }
    async with running(tmp_path, security, kafka) as address:
        address.image = replace(address.image, users={"alice": {1: user_keys("alice", "a-secret")}})
        for user, password, status in (
            ("alice", "a-secret", 200),
            ("alice", "a-secret", 200),  # by memory
            ("alice", "ops-secret", 401),
            ("ops", "ops-secret", 200),
            ("mallory", "a-secret", 401),
            ("alice", "a\0secret", 401),
        ):
            response = await address.ask((user, password))
            assert response.status_code == status, (user, password)
        assert (await address.ask(("alice", "a-secret"))).text == "User:alice 127.0.0.1"
        address.image = replace(address.image, users={"alice": {1: user_keys("alice", "changed")}})
        assert (await address.ask(("alice", "a-secret"))).status_code == 401


async def test_before_the_metadata_is_there_a_login_is_not_wrong(tmp_path: Path) -> None:
    kafka = {"listener.name.rest.plain.sasl.jaas.config": JAAS}
    async with running(tmp_path, {"logins": "basic"}, kafka) as address:
        address.are_users_known = False
        assert (await address.ask(("alice", "a-secret"))).status_code == 503
        assert (await address.ask(("ops", "ops-secret"))).status_code == 200


async def test_tokens_count_until_they_are_revoked_or_expire(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    clock = FakeClock()
    kept: dict[str, KeptToken] = {}
    texts = {}
    for user in ("scraper", "other"):
        texts[user], one = new_token(user, clock.now_ms(), 1_000, kept, os.urandom)
        kept[one.token_id] = one
    write_tokens(file, kept.values())
    kafka = {"connection.failed.authentication.delay.ms": "1"}
    async with running(tmp_path, {"logins": "bearer", "tokens_file": str(file)}, kafka) as address:
        token_file = address.rest._security._token_file
        assert token_file is not None
        assert (await address.ask(**bearer(texts["scraper"]))).text == "User:scraper 127.0.0.1"  # type: ignore[arg-type]
        assert (await address.ask(**bearer("a.b.c"))).status_code == 401  # type: ignore[arg-type]
        write_tokens(file, [one for one in kept.values() if one.user != "scraper"])
        token_file.reload_if_changed()
        assert (await address.ask(**bearer(texts["scraper"]))).status_code == 401  # type: ignore[arg-type]
        file.write_text("broken")
        with structlog.testing.capture_logs() as logs:
            token_file.reload_if_changed()
            token_file.reload_if_changed()
        assert [line["event"] for line in logs] == ["tokens_not_renewed"]
        assert (await address.ask(**bearer(texts["other"]))).text == "User:other 127.0.0.1"  # type: ignore[arg-type]
        address.clock.advance(1_000)
        assert (await address.ask(**bearer(texts["other"]))).status_code == 401  # type: ignore[arg-type]


async def test_a_certificate_names_its_owner(tmp_path: Path) -> None:
    kafka = {"ssl.client.auth": "requested", "ssl.principal.mapping.rules": "RULE:^CN=([a-z]+).*$/$1/"}
    async with running(tmp_path, HTTPS, kafka) as address:
        mine = AUTHORITY.issue_cert("probe@example.org", common_name="probe")
        assert (await address.ask()).text == "User:ANONYMOUS 127.0.0.1"
        assert (await address.ask(certificate=mine)).text == "User:probe 127.0.0.1"
        nameless = AUTHORITY.issue_cert("x@example.org", common_name="0")
        with structlog.testing.capture_logs() as logs, pytest.raises(httpx.TransportError):
            await address.ask(certificate=nameless)
        assert "its certificate gives it no name" in logs[0]["reason"]


async def test_a_required_certificate_has_to_be_there_and_ours(tmp_path: Path) -> None:
    async with running(tmp_path, HTTPS, {"ssl.client.auth": "required"}) as address:
        for wrong in (None, OTHERS.issue_cert("probe@example.org")):
            with pytest.raises(httpx.TransportError):
                await address.ask(certificate=wrong)
        assert (await address.ask(certificate=AUTHORITY.issue_cert("a@b.org"))).status_code == 200


async def test_a_client_without_tls_is_refused_with_a_line(tmp_path: Path) -> None:
    async with running(tmp_path, HTTPS) as address:
        reader, writer = await address.dial()
        with structlog.testing.capture_logs() as logs:
            writer.write(b"GET /v1/cluster HTTP/1.1\r\nHost: a\r\n\r\n")
            assert b"200" not in await reader.read()
            writer.close()
        assert {line["reason"] for line in logs if line["event"] == "connection_closed"} == {
            "it does not speak TLS, as this listener does"
        }


async def test_a_renewed_certificate_counts_for_the_next_connection(tmp_path: Path) -> None:
    async with running(tmp_path, HTTPS) as address:
        certificate = address.rest._security._certificate
        assert certificate is not None
        async with httpx.AsyncClient(verify=address.context(), trust_env=False) as kept:
            assert (await kept.get(address.url)).status_code == 200
            write_certificate(tmp_path, OTHERS)
            await certificate.reload_if_changed()
            assert (await kept.get(address.url)).status_code == 200
            with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
                await address.ask()
        (tmp_path / "node.pem").write_text("broken")
        with structlog.testing.capture_logs() as logs:
            await certificate.reload_if_changed()
        assert logs[-1]["event"] == "certificate_not_renewed"


async def test_a_header_does_not_say_who_is_connected(tmp_path: Path) -> None:
    async with running(tmp_path) as address:
        assert (await address.ask(x_forwarded_for="10.1.1.1")).text == "User:ANONYMOUS 127.0.0.1"


async def test_a_connection_that_says_nothing_ends(tmp_path: Path) -> None:
    async with running(tmp_path, {"logins": "basic"}, {"listener.name.rest.plain.sasl.jaas.config": JAAS}) as address:
        address.rest._server._room.known_s_max = 0.05
        reader, writer = await address.dial()
        with structlog.testing.capture_logs() as logs:
            writer.write(b"GET /v1/clus")
            assert await reader.read() == b""
        assert "did not log in, within 0.05 s" in logs[0]["reason"]
        writer.close()
        async with httpx.AsyncClient(auth=("ops", "ops-secret"), trust_env=False) as client:
            await client.get(address.url)
            (connection,) = address.rest._server._room.open
            assert connection._timer is None
            assert len(address.rest._server._room.pending) == 0


async def test_connections_without_a_login_are_bounded(tmp_path: Path) -> None:
    async with running(tmp_path, pending_connections_per_host_max=16) as address:
        dialled = [await address.dial() for _ in range(17)]
        assert await dialled[0][0].read() == b""  # the oldest gave way
        assert (await address.ask()).status_code == 200
        assert await dialled[1][0].read() == b""
        for _, writer in dialled:
            writer.close()


async def test_all_connections_are_bounded(tmp_path: Path) -> None:
    async with running(tmp_path) as address:
        address.rest._server._room.connections_max = 1
        async with httpx.AsyncClient(trust_env=False) as kept:
            assert (await kept.get(address.url)).status_code == 200
            with pytest.raises(httpx.TransportError):
                await address.ask()
            assert (await kept.get(address.url)).status_code == 200
        await until(lambda: not address.rest._server._room.open)
        assert (await address.ask()).status_code == 200


async def test_headers_are_bounded_before_a_login(tmp_path: Path) -> None:
    async with running(tmp_path) as address:
        reader, writer = await address.dial()
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nX-Long: " + b"a" * (HEADER_BYTES_MAX + 1_000))
        assert b" 400 " in await reader.readline()
        writer.close()


async def test_a_body_before_a_login_is_not_read(tmp_path: Path) -> None:
    async with running(tmp_path, {"logins": "basic"}) as address:
        reader, writer = await address.dial()
        writer.write(b"POST /v1/tables HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n")
        answer = await reader.read()
        assert b" 401 " in answer.splitlines()[0]
        writer.close()


ANYWHERE, HERE = "0.0.0.0", "127.0.0.1"
PROXY: Final = {"host_names": "queue.example.org, other.example.org"}


@pytest.mark.parametrize(
    ("security", "own_address", "host", "status"),
    [
        ({}, f"{HERE}:8080", "rebound.example:8080", 421),
        ({}, f"{HERE}:8080", "127.0.0.1.rebound.example", 421),
        ({}, f"{HERE}:8080", "x" * 1_000, 421),
        ({}, "localhost:8080", "rebound.example", 421),
        ({}, "[::1]:8080", "rebound.example", 421),
        ({}, f"{HERE}:8080", "localhost:8080", 200),
        ({}, f"{HERE}:8080", "LOCALHOST.", 200),
        ({}, f"{HERE}:8080", "127.0.0.1:1", 200),
        ({}, f"{HERE}:8080", "[::1]:8080", 200),
        ({}, f"{HERE}:8080", "[::1]", 200),
        ({}, f"{ANYWHERE}:8080", "queue.example.org", 200),
        ({"logins": "basic"}, f"{HERE}:8080", "queue.example.org", 401),
        (HTTPS, f"{HERE}:8080", "queue.example.org", 200),
        (PROXY, f"{HERE}:8080", "Queue.example.org:443", 200),
        (PROXY, f"{HERE}:8080", "other.example.org", 200),
        (PROXY, f"{HERE}:8080", "rebound.example", 421),
        (PROXY, f"{ANYWHERE}:8080", "rebound.example", 421),
        ({**PROXY, "logins": "basic"}, f"{HERE}:8080", "rebound.example", 421),
        ({"host_names": "*"}, f"{HERE}:8080", "queue.example.org", 200),
    ],
)
async def test_a_page_whose_name_resolves_to_this_machine_is_refused(
    tmp_path: Path, security: Mapping[str, str], own_address: str, host: str, status: int
) -> None:
    async with running(tmp_path, security, own_address=own_address) as address:
        answer = await address.ask(host=host)
    assert answer.status_code == status
    if status == 421:
        assert answer.json()["detail"].startswith(f"this address is not '{host[:100].partition(':')[0]}': ")
        assert "rest_security.host_names" in answer.json()["detail"]


async def test_the_advertised_name_is_a_name_of_the_address(tmp_path: Path) -> None:
    settings = Settings(rest_advertised="node-1.example.org:80")
    rest = GuardedRest(settings, MetadataImage, lambda: True, FakeClock())
    answers: list[Any] = []

    async def answered(message: Any) -> None:
        answers.append(message)

    async def page(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    guarded = rest._security.guarded(page, lambda host, reason: None)
    for name in (b"node-1.example.org:80", b"node-2.example.org"):
        scope = {"type": "http", "method": "GET", "path": "/v1/cluster", "headers": [(b"host", name)]}
        await guarded(scope, page, answered)  # type: ignore[arg-type]
    assert [one["status"] for one in answers if "status" in one] == [200, 421]
    await rest.stop()


@pytest.mark.parametrize(
    ("host", "security", "kafka", "said"),
    [
        (ANYWHERE, {}, {}, {"listener_is_open"}),
        (ANYWHERE, HTTPS, {}, {"listener_is_open"}),
        (ANYWHERE, HTTPS, {"ssl.client.auth": "requested"}, {"listener_is_open"}),
        (ANYWHERE, HTTPS, {"ssl.client.auth": "required"}, set()),
        (ANYWHERE, {**HTTPS, "logins": "basic"}, {}, set()),
        (ANYWHERE, {"logins": "basic"}, {}, {"logins_without_tls"}),
        (HERE, {"logins": "basic"}, {}, {"logins_without_tls"}),
        (HERE, {}, {}, set()),
    ],
)
async def test_what_is_open_is_said_at_the_start(
    tmp_path: Path, host: str, security: Mapping[str, str], kafka: Mapping[str, str], said: set[str]
) -> None:
    with structlog.testing.capture_logs() as logs:
        rest = Address(tmp_path, security, kafka).rest
        rest.bind(host, 0)
    await rest.stop()
    assert {line["event"] for line in logs} == said


@pytest.mark.parametrize(
    ("security", "kafka", "kind", "sentence"),
    [
        ({"logins": "digest"}, {}, rest_security.WrongRestSecurity, "logins has 'digest', and may have basic, bearer"),
        ({"host_names": "a, b:80"}, {}, rest_security.WrongRestSecurity, "host_names has 'b:80', and may have names"),
        ({"logins": "bearer"}, {}, rest_security.WrongRestSecurity, "needs rest_security.tokens_file"),
        ({"tokens_file": "t"}, {}, rest_security.WrongRestSecurity, "tokens_file protects nothing"),
        ({"logins": "bearer", "tokens_file": "/nowhere"}, {}, BadTokenFile, "/nowhere cannot be read: No such file"),
        (
            {},
            {"listener.name.rest.ssl.client.auth": "required"},
            rest_security.WrongRestSecurity,
            "listener.name.rest.ssl.client.auth protects nothing: set rest_security.protocol = https",
        ),
        (
            {},
            {"listener.name.rest.plain.sasl.jaas.config": JAAS},
            rest_security.WrongRestSecurity,
            "listener.name.rest.plain.sasl.jaas.config protects nothing",
        ),
        (
            {"logins": "basic"},
            {"listener.name.rest.plain.sasl.jaas.config": "geheim"},
            rest_security.WrongRestSecurity,
            "a JAAS line has the form",
        ),
        (HTTPS, {"listener.name.rest.ssl.keystore.location": "/nowhere"}, WrongTls, "/nowhere does not exist"),
    ],
)
async def test_what_cannot_be_is_one_sentence_at_the_start(
    tmp_path: Path, security: Mapping[str, str], kafka: Mapping[str, str], kind: type[Exception], sentence: str
) -> None:
    with pytest.raises(kind) as refused:
        Address(tmp_path, security, kafka)
    assert sentence in str(refused.value)
    assert "geheim" not in str(refused.value)
    assert "ops-secret" not in str(refused.value)


def test_a_file_of_tokens_is_written_by_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    write_tokens(file, ())
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o640)
    write_tokens(file, ())
    assert file.stat().st_mode & 0o777 == 0o640
    file.chmod(0o660)
    with pytest.raises(BadTokenFile, match="may be written by others: chmod go-w"):
        Address(tmp_path, {"logins": "bearer", "tokens_file": str(file)}, {})
    assert sorted(one.name for one in tmp_path.iterdir()) == ["ca.pem", "node.pem", "tokens.json"]


async def test_a_token_of_oauthbearer_logs_in_too(tmp_path: Path) -> None:
    issuer, keys = Issuer(FakeClock().now_ms() / 1000), tmp_path / "keys.json"
    keys.write_bytes(issuer.key_set())
    kafka = {
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "bmq.sasl.oauthbearer.allowed.urls": keys.as_uri(),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }
    async with running(tmp_path, {"logins": "bearer"}, kafka) as address:
        async with asyncio.timeout(5):
            while (await address.ask(**bearer(issuer.token()))).status_code == 503:  # type: ignore[arg-type]
                pass  # until the keys are read
        assert (await address.ask(**bearer(issuer.token()))).text == "User:alice 127.0.0.1"  # type: ignore[arg-type]
        for wrong in (Issuer(issuer.now_s).token(), issuer.token()[:-8] + "AAAAAAAA", "bmq_nothing"):
            assert (await address.ask(**bearer(wrong))).status_code == 401  # type: ignore[arg-type]
