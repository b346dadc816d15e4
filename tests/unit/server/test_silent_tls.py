"""A host that takes connections and never answers the TLS handshake: each request ends in time, and its connection with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from bmq.admin.drivers import api_server
from bmq.admin.drivers.api_server import ApiServer, PodAccess
from bmq.admin.drivers.driver import DriverFailed
from bmq.admin.index_queries import IndexQueries, IndexServiceAway, IndexServiceSettings
from bmq.dev.http_get import HttpsAccess, http_get
from bmq.hdfs.config import Address
from bmq.protocol.errors import KafkaError
from bmq.rest_client.login import RestLogin
from bmq.security.oauth.jwks_verifier import KeysNotRead
from bmq.server.bearer_keys import _read_url
from bmq.server.check_posts import CheckPosts
from bmq.server.half_check_settings import HalfCheckSettings
from bmq.server.otlp_endpoint import OtlpEndpoint
from testing.patience import Patience
from tests.fakes.clock import FakeClock

pytestmark = pytest.mark.unit

REQUEST_S = 0.5
Ask = Callable[[int, Path], Coroutine[Any, Any, None]]


class Silent:
    """Connections that were taken, and those that the client has closed."""

    def __init__(self) -> None:
        self.taken = 0
        self.closed = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.taken += 1
        try:
            while await reader.read(10_000):
                continue
        except OSError:
            pass
        finally:
            self.closed.set()
            writer.close()


@asynccontextmanager
async def silent() -> AsyncIterator[tuple[Silent, int]]:
    host = Silent()
    server = await asyncio.start_server(host.serve, "127.0.0.1", 0)
    try:
        yield host, server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def by_api_server(port: int, directory: Path) -> None:
    trustme.CA().cert_pem.write_to_path(directory / "ca.crt")
    (directory / "token").write_text("token")
    with pytest.raises(DriverFailed, match=r"^Kubernetes' API server https://\S+ did not answer within 0\.5 s$"):
        await ApiServer(PodAccess(f"https://127.0.0.1:{port}", directory), namespace="n").read("bmq")


async def by_check(port: int, directory: Path) -> None:
    (directory / "secret").write_bytes(b"0123456789abcdef\n")
    settings = HalfCheckSettings(hosts=("127.0.0.1",), secret_file=str(directory / "secret"), timeout_s=REQUEST_S)
    posts = CheckPosts(settings, FakeClock())

    async def body() -> bytes:
        return b"{}"

    with pytest.raises(KafkaError, match=r" did not answer within 0.5 s$"):
        await posts.post(f"https://127.0.0.1:{port}/", body)
    await posts.close()


async def by_telemetry(port: int, directory: Path) -> None:
    endpoint = OtlpEndpoint(f"https://127.0.0.1:{port}/")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(REQUEST_S):
            await endpoint.post(b"")
    await endpoint.close()


async def by_dev(port: int, directory: Path) -> None:
    trustme.CA().cert_pem.write_to_path(directory / "ca.pem")
    (directory / "password").write_text("secret")
    (directory / "password").chmod(0o600)
    login = RestLogin(ca_file=str(directory / "ca.pem"), user="user", password_file=str(directory / "password"))
    access = HttpsAccess.of(login)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(REQUEST_S):
            await http_get(Address("127.0.0.1", port), "/", access)


async def by_index(port: int, directory: Path) -> None:
    settings = IndexServiceSettings(url=f"https://127.0.0.1:{port}", timeout_ms=1_000)
    queries = IndexQueries(settings)
    with pytest.raises(IndexServiceAway):
        await queries.ask("index", b"{}")


async def by_keys(port: int, directory: Path) -> None:
    with pytest.raises(KeysNotRead, match=r" did not answer within 0.5 s$"):
        await _read_url(f"https://127.0.0.1:{port}/")


@pytest.mark.parametrize(
    "ask", [by_api_server, by_check, by_telemetry, by_dev, by_index, by_keys], ids=lambda ask: ask.__name__
)
async def test_the_connection_ends_with_the_request(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_server, "REQUEST_WAIT_S", REQUEST_S)
    monkeypatch.setattr("bmq.server.bearer_keys.READ_S_MAX", REQUEST_S)
    async with silent() as (host, port):
        await ask(port, tmp_path)
        async with asyncio.timeout(Patience(5).limit_s):
            await host.closed.wait()
        assert host.taken == 1
