"""TLS listeners with stock clients: encryption, names from certificates, certificates replaced under load, wrong ones."""

from __future__ import annotations

import datetime
import os
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
import trustme
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from testing.processes import eventually, free_port
from testing.servers import BmqServer
from tests.e2e.conftest import unique_name

pytestmark = [pytest.mark.clients, pytest.mark.bmq_only]

CLIENT_WAIT_S: Final = 30.0
RECORDS: Final = 2_000
RECORD_BYTES: Final = 1_000


class TlsServer(BmqServer):
    """With a plain listener and one with TLS, which asks for client certificates. `pki`: its files."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.pki = directory.with_name("pki")
        self.pki.mkdir()
        self.authority = trustme.CA()
        self.authority.cert_pem.write_to_path(str(self.pki / "ca.pem"))
        self.tls_port = free_port()
        self.issue()
        names = "RULE:^CN=([^,]*),.*$/$1/,DEFAULT"
        configs = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},OUTSIDE://127.0.0.1:{self.tls_port}",
            "listener.security.protocol.map": "OUTSIDE:SSL",
            "listener.name.outside.ssl.keystore.location": str(self.pki / "node.pem"),
            "listener.name.outside.ssl.truststore.location": str(self.pki / "ca.pem"),
            "listener.name.outside.ssl.client.auth": "requested",
            "listener.name.outside.ssl.allow.dn.changes": "true",  # trustme makes a new name each time
            "listener.name.outside.ssl.principal.mapping.rules": names,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:alice",
        }
        self._settings = directory.with_suffix(".toml")
        self._settings.write_text("[kafka]\n" + "".join(f"'{name}' = '{text}'\n" for name, text in configs.items()))

    def issue(self) -> None:
        """A new certificate for the node, in place of the one before."""
        made = self.pki / "new.pem"
        self.authority.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(made))
        made.chmod(0o600)
        made.replace(self.pki / "node.pem")

    def client(self, name: str = "", *, authority: Path | None = None) -> dict[str, str]:
        """librdkafka's properties; `name`: with a certificate of its own."""
        properties = {
            "bootstrap.servers": f"127.0.0.1:{self.tls_port}",
            "security.protocol": "ssl",
            "ssl.ca.location": str(authority or self.pki / "ca.pem"),
        }
        if name:
            path = self.pki / f"{name}.pem"
            issued = self.authority.issue_cert(f"{name}@example.org", common_name=name)
            issued.private_key_and_cert_chain_pem.write_to_path(str(path))
            properties |= {"ssl.certificate.location": str(path), "ssl.key.location": str(path)}
        return properties

    def serial(self) -> str:
        """Of the certificate that a new connection sees."""
        context = ssl.create_default_context(cafile=str(self.pki / "ca.pem"))
        with context.wrap_socket(self.connect(), server_hostname="localhost") as connection:
            certificate: Mapping[str, object] = connection.getpeercert() or {}
            return str(certificate["serialNumber"])

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.tls_port), timeout=CLIENT_WAIT_S)

    def _arguments(self) -> list[str]:
        arguments = super()._arguments()
        place = arguments.index("--listen")
        return [*arguments[:place], *arguments[place + 2 :], "--config", str(self._settings)]


@contextmanager
def started(directory: Path) -> Iterator[TlsServer]:
    made = TlsServer(directory / "server")
    made.start()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsServer]:
    """For tests that leave its certificate alone."""
    with started(tmp_path_factory.mktemp("tls")) as made:
        yield made


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[TlsServer]:
    """For a test that gives it another certificate."""
    with started(tmp_path) as made:
        yield made


def made_topic(server: TlsServer) -> str:
    name = unique_name("tls")
    admin = AdminClient(server.client("alice"))
    (made,) = admin.create_topics([NewTopic(name, 2, 1)]).values()
    made.result(CLIENT_WAIT_S)
    return name


def test_records_go_in_and_out_encrypted_and_clients_are_told_the_listeners_address(server: TlsServer) -> None:
    topic = made_topic(server)
    (broker,) = AdminClient(server.client("alice")).list_topics(timeout=CLIENT_WAIT_S).brokers.values()
    assert broker.port == server.tls_port
    producer = Producer(server.client("alice"))
    for number in range(RECORDS):
        producer.produce(topic, number.to_bytes(4, "big") + os.urandom(RECORD_BYTES))
    assert producer.flush(CLIENT_WAIT_S) == 0
    consumer = Consumer({**server.client("alice"), "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: set[int] = set()

    def read() -> bool:
        for message in consumer.consume(500, 0.5):
            assert message.error() is None
            found.add(int.from_bytes(message.value()[:4], "big"))
        return len(found) == RECORDS

    eventually(read, CLIENT_WAIT_S, "all records are read")
    consumer.close()


def test_a_certificate_names_its_client_and_without_one_it_is_anonymous(server: TlsServer) -> None:
    topic = made_topic(server)
    assert topic in AdminClient(server.client("alice")).list_topics(timeout=CLIENT_WAIT_S).topics
    assert topic not in AdminClient(server.client("bob")).list_topics(timeout=CLIENT_WAIT_S).topics
    assert topic not in AdminClient(server.client()).list_topics(timeout=CLIENT_WAIT_S).topics


def test_a_certificate_is_replaced_under_load_and_no_record_fails(own_server: TlsServer) -> None:
    topic = made_topic(own_server)
    before, failed = own_server.serial(), list[str]()
    producer = Producer(own_server.client("alice"))
    own_server.issue()

    def is_renewed() -> bool:
        for _ in range(50):
            producer.produce(topic, b"x", on_delivery=lambda error, _: failed.append(str(error)) if error else None)
        producer.poll(0.05)
        return own_server.serial() != before

    eventually(is_renewed, CLIENT_WAIT_S, "new connections see the new certificate")
    assert producer.flush(CLIENT_WAIT_S) == 0 and failed == []


def test_a_certificate_that_cannot_be_used_leaves_the_old_one_in_force(own_server: TlsServer) -> None:
    before = own_server.serial()
    (own_server.pki / "node.pem").write_text("no certificate")
    eventually(
        lambda: "certificate_not_renewed" in own_server.log_file.read_text(),
        CLIENT_WAIT_S,
        "the server says that it is wrong",
    )
    assert own_server.serial() == before


def test_who_does_not_trust_the_certificate_or_is_not_trusted_gets_no_further(
    server: TlsServer, tmp_path: Path
) -> None:
    stranger = trustme.CA()
    stranger.cert_pem.write_to_path(str(tmp_path / "stranger.pem"))
    with pytest.raises(KafkaException):
        AdminClient(server.client(authority=tmp_path / "stranger.pem")).list_topics(timeout=3)
    expired = server.authority.issue_cert(
        "old@example.org", not_after=datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    )
    expired.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "expired.pem"))
    properties = server.client() | {
        "ssl.certificate.location": str(tmp_path / "expired.pem"),
        "ssl.key.location": str(tmp_path / "expired.pem"),
    }
    with pytest.raises(KafkaException):
        AdminClient(properties).list_topics(timeout=3)


def test_clear_text_on_the_tls_port_and_a_silent_peer_are_dropped(server: TlsServer) -> None:
    with server.connect() as clear:
        clear.sendall(b"\x00\x00\x00\x10clear text of it")
        assert clear.recv(100) == b""
    began = time.monotonic()
    with server.connect() as silent:
        silent.settimeout(CLIENT_WAIT_S)
        assert silent.recv(100) == b""
    assert time.monotonic() - began < CLIENT_WAIT_S
