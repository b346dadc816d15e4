"""Kubernetes' API server as the driver sees it: what it is asked, and what its refusals come to."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from bmq.admin.drivers import api_server
from bmq.admin.drivers.api_server import SCALE_TRIES_MAX, ApiServer, PodAccess, pod_access
from bmq.admin.drivers.driver import DriverFailed, NodeSpec
from bmq.admin.drivers.kubernetes import StatefulSetPods
from bmq.admin.drivers.settings import ScaleSettings, driver_of

pytestmark = pytest.mark.unit

AUTHORITY = trustme.CA()
PATH = "/apis/apps/v1/namespaces/prod/statefulsets/bmq"

Answer = tuple[int, bytes] | None


class FakeApiServer:
    """One StatefulSet behind HTTPS. `answer`: says what else than the truth is answered, and may change it."""

    def __init__(self) -> None:
        self.replicas = 3
        self.version = 7
        self.requests: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.answer: Callable[[str, str], Answer] = lambda method, path: None
        self.is_mute = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            method, path, _ = first.split(" ")
            self.requests.append(f"{method} {path}")
            self.headers.append(headers)
            if self.is_mute:
                await reader.read()
            status, content = self.answer(method, path) or self._truth(method, body)
            writer.write(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % (status, len(content)))
            writer.write(content)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client has gone
        finally:
            writer.close()

    def _truth(self, method: str, body: bytes) -> tuple[int, bytes]:
        if method == "PUT":
            order = json.loads(body)
            if order["metadata"]["resourceVersion"] != str(self.version):
                return 409, status_of("the object has been modified")
            assert (order["kind"], order["metadata"]["namespace"]) == ("Scale", "prod")
            self.replicas = order["spec"]["replicas"]
            self.version += 1
            return 200, b"{}"
        found: dict[str, Any] = {
            "metadata": {"resourceVersion": str(self.version), "generation": 4},
            "spec": {"replicas": self.replicas, "template": {"spec": {"terminationGracePeriodSeconds": 200}}},
            "status": {"replicas": self.replicas, "observedGeneration": 4},
        }
        return 200, json.dumps(found).encode()


def status_of(message: str) -> bytes:
    return json.dumps({"kind": "Status", "message": message}).encode()


@asynccontextmanager
async def listening(fake: FakeApiServer) -> AsyncIterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    AUTHORITY.issue_cert("127.0.0.1").configure_cert(context)
    server = await asyncio.start_server(fake.serve, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


@pytest.fixture
def account(tmp_path: Path) -> Path:
    """What Kubernetes mounts into a pod."""
    AUTHORITY.cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    (tmp_path / "token").write_text("secret\n")
    (tmp_path / "namespace").write_text("prod")
    return tmp_path


@pytest.fixture
def fake() -> FakeApiServer:
    return FakeApiServer()


@pytest.fixture
async def api(fake: FakeApiServer, account: Path) -> AsyncIterator[ApiServer]:
    async with listening(fake) as port:
        yield ApiServer(PodAccess(f"https://127.0.0.1:{port}", account))


async def test_two_requests_scale(fake: FakeApiServer, api: ApiServer) -> None:
    pods = StatefulSetPods(api, range(100, 110), stateful_set="bmq", poll_interval_s=0)
    assert (await pods.start_node(NodeSpec(103, "broker"))).detail == "bmq-3"
    assert fake.replicas == 4
    assert fake.requests == [f"GET {PATH}", f"PUT {PATH}/scale"]
    assert {headers["authorization"] for headers in fake.headers} == {"Bearer secret"}
    await pods.stop_node(103)
    assert fake.replicas == 3


async def test_a_renewed_token_counts_at_once(fake: FakeApiServer, api: ApiServer, account: Path) -> None:
    await api.read("bmq")
    (account / "token").write_text("renewed")
    assert (await api.read("bmq")).grace_s == 200
    assert [headers["authorization"] for headers in fake.headers] == ["Bearer secret", "Bearer renewed"]


async def test_a_status_that_changes_is_no_conflict(fake: FakeApiServer, api: ApiServer) -> None:
    before = await api.read("bmq")
    fake.version += 1
    await api.scale("bmq", before, 4)
    assert fake.replicas == 4


async def test_another_number_of_pods_is_a_conflict(fake: FakeApiServer, api: ApiServer) -> None:
    before = await api.read("bmq")
    fake.version += 1
    fake.replicas = 6
    sentence = "another client has scaled StatefulSet bmq meanwhile: from 3 pods to 6"
    with pytest.raises(DriverFailed, match=f"^{sentence}$"):
        await api.scale("bmq", before, 4)
    assert fake.replicas == 6


async def test_conflicts_without_an_end_are_given_up(fake: FakeApiServer, api: ApiServer) -> None:
    before = await api.read("bmq")
    fake.answer = lambda method, path: (409, b"") if method == "PUT" else None
    with pytest.raises(DriverFailed, match=rf"changed {SCALE_TRIES_MAX} times while it was to be scaled; try again$"):
        await api.scale("bmq", before, 4)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((401, status_of("Unauthorized")), "401 Unauthorized"),
        ((403, status_of('User "x" cannot get\n resource')), '403 User "x" cannot get resource'),
        ((404, status_of('statefulsets.apps "bmq" not found')), '404 statefulsets.apps "bmq" not found'),
        ((500, b"nonsense"), "500"),
        ((503, b'{"message": 7}'), "503"),
        ((503, b"[]"), "503"),
        ((302, b"{}"), "302"),
        ((403, status_of("x" * 5_000)), "403 " + "x" * 300),
    ],
    ids=lambda value: str(value)[:30],
)
async def test_refusals_are_one_sentence(
    fake: FakeApiServer, api: ApiServer, answer: tuple[int, bytes], reason: str
) -> None:
    before = await api.read("bmq")
    fake.answer = lambda method, path: answer
    for verb, asked in (("read", api.read("bmq")), ("scale", api.scale("bmq", before, 4))):
        with pytest.raises(DriverFailed) as caught:
            await asked
        assert str(caught.value) == f"Kubernetes refuses to {verb} StatefulSet bmq in namespace prod: {reason}"


async def test_an_answer_without_bounds_is_left(
    fake: FakeApiServer, api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_server, "ANSWER_BYTES_MAX", 1_000)
    fake.answer = lambda method, path: (200, b"x" * 1_001)
    with pytest.raises(DriverFailed, match=r"^Kubernetes' answer has more than 1000 bytes$"):
        await api.read("bmq")


async def test_a_server_that_never_answers(
    fake: FakeApiServer, api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_server, "REQUEST_WAIT_S", 0.1)
    fake.is_mute = True
    with pytest.raises(DriverFailed, match=r"^Kubernetes' API server https://\S+ did not answer within 0\.1 s$"):
        await api.read("bmq")


async def test_a_server_that_is_away_or_another_one(fake: FakeApiServer, account: Path) -> None:
    async with listening(fake) as port:
        trustme.CA().cert_pem.write_to_path(str(account / "ca.crt"))
        with pytest.raises(DriverFailed, match=r"is not reached: .*CERTIFICATE_VERIFY_FAILED"):
            await ApiServer(PodAccess(f"https://127.0.0.1:{port}", account)).read("bmq")
    with pytest.raises(DriverFailed, match=rf"^Kubernetes' API server https://127\.0\.0\.1:{port} is not reached: "):
        await ApiServer(PodAccess(f"https://127.0.0.1:{port}", account)).read("bmq")
    assert fake.requests == []


@pytest.mark.parametrize(
    ("file", "content", "sentence"),
    [
        ("token", None, "token cannot be read: No such file or directory"),
        ("token", b"", "token is empty"),
        ("token", "täken".encode(), "token is no token"),
        ("token", b"two\nlines", "token is no token"),
        ("token", b"\xff", "token cannot be read: "),
        ("namespace", None, "namespace cannot be read: No such file or directory"),
        ("ca.crt", None, "ca.crt cannot be used: "),
        ("ca.crt", b"nonsense", "ca.crt cannot be used: "),
    ],
)
async def test_files_of_the_account_that_cannot_be_used(
    account: Path, file: str, content: bytes | None, sentence: str
) -> None:
    (account / file).unlink()
    if content is not None:
        (account / file).write_bytes(content)
    with pytest.raises(DriverFailed, match=f"/{sentence}"):
        await ApiServer(PodAccess("https://127.0.0.1:1", account)).read("bmq")


def test_where_the_api_server_is(account: Path, tmp_path: Path) -> None:
    there = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    assert pod_access(there, account) == PodAccess("https://10.0.0.1:443", account)
    six = pod_access({**there, "KUBERNETES_SERVICE_HOST": "fd00::1"}, account)
    assert six is not None and six.url == "https://[fd00::1]:443"
    assert pod_access({}, account) is None
    assert pod_access(there, tmp_path / "nowhere") is None


async def test_a_pod_asks_the_api_server_and_others_kubectl(
    fake: FakeApiServer, account: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    options = {"stateful_set": "bmq", "service_account": str(account)}
    async with listening(fake) as port:
        there = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(port)}

        async def listed(options: dict[str, str], environment: dict[str, str]) -> int:
            driver = driver_of(ScaleSettings(driver="kubernetes", options=options), lambda spec: [], environment)
            assert driver is not None
            return len(await driver.list_nodes())

        assert await listed(options, there) == 3
        assert await listed({**options, "namespace": "other"}, there) == 3
        for more, environment in (({"context": "far"}, there), ({}, {})):
            with pytest.raises(DriverFailed, match=r"^kubectl cannot be run: "):
                await listed({**options, **more}, environment)
    assert fake.requests == [f"GET {PATH}", f"GET {PATH.replace('prod', 'other')}"]
