"""Certificates, the trust store and a password are replaced while clients write, and not one record fails.

librdkafka by a password and by a certificate, and Java's producer, each on connections that stay and on new ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import trustme
from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from testing.java import java_command
from testing.processes import ManagedProcess, eventually
from tests.support.paced_load import PacedProducer
from tests.support.secured_server import PASSWORD, SASL_SSL, SCRAM_256, SCRAM_512, SSL, USER, Door, SecuredServer

pytestmark = [pytest.mark.campaign("kafka"), pytest.mark.bmq_only, pytest.mark.timeout(400), pytest.mark.safety]

WAIT_S: Final = 60.0
PARTITIONS: Final = 2
RECORDS_S: Final = 200
NEW_PASSWORD: Final = "alice-secret-6"
BY_PASSWORD, BY_CERTIFICATE, JAVA = Door(SASL_SSL, SCRAM_256), Door(SSL), Door(SASL_SSL, SCRAM_512)
TLS_LISTENERS: Final = (SASL_SSL, SSL)
SESSION_MS: Final = 2_000
VERIFIABLE_PRODUCER: Final = "org.apache.kafka.tools.VerifiableProducer"


class JavaProducer:
    """Kafka's own producer under test, at a steady rate, until `finish`."""

    def __init__(self, server: SecuredServer, topic: str, name: str) -> None:
        settings = server.write(f"{name}.properties", _lines(server.java(JAVA)))
        arguments = ["--bootstrap-server", server.bootstrap_of(JAVA), "--topic", topic, "--acks", "-1"]
        arguments += ["--throughput", str(RECORDS_S), "--command-config", str(settings)]
        self._process = ManagedProcess(name, java_command(VERIFIABLE_PRODUCER, arguments), server.files / f"{name}.log")
        self._process.start()

    @property
    def events(self) -> list[dict[str, Any]]:
        lines = self._process.log_file.read_text(errors="replace").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    @property
    def acknowledged(self) -> int:
        return sum(event["name"] == "producer_send_success" for event in self.events)

    def go_on(self, count: int) -> None:
        """Return once so many more records are acknowledged."""
        target = self.acknowledged + count
        eventually(lambda: self.acknowledged >= target, WAIT_S, f"{count} more records{self._process}")

    def kill(self) -> None:
        if self._process.is_running:
            self._process.kill()

    def finish(self) -> int:
        """How many records it wrote. Raises AssertionError: one failed."""
        self._process.stop(WAIT_S)
        failed = [event for event in self.events if event["name"] == "producer_send_error"]
        assert failed == [], failed[:3]
        (told,) = [event for event in self.events if event["name"] == "tool_data"]
        assert told["sent"] == told["acked"] == self.acknowledged
        return int(told["acked"])


def _lines(settings: dict[str, str]) -> bytes:
    return "".join(f"{name}={value}\n" for name, value in settings.items()).encode()


def renewed(server: SecuredServer, change: Callable[[], object]) -> None:
    """Return once all listeners with TLS have the changed files."""

    def count() -> int:
        return server.process.log_of_this_run().count('"certificate_renewed"')

    wanted = count() + len(TLS_LISTENERS)
    change()
    eventually(lambda: count() >= wanted, WAIT_S, "listeners have the new files")


def new_password(server: SecuredServer) -> None:
    admin = AdminClient(server.librdkafka(BY_CERTIFICATE))
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        info = ScramCredentialInfo(mechanism, 4096)
        change = UserScramCredentialUpsertion(USER, info, NEW_PASSWORD.encode())
        admin.alter_user_scram_credentials([change])[USER].result(WAIT_S)


def logs_in(settings: dict[str, Any]) -> bool:
    try:
        return "t" in AdminClient({**settings, "log_level": 0}).list_topics(timeout=5).topics
    except KafkaException:
        return False


def written(server: SecuredServer, count: int) -> int:
    """Records of the topic, once there are `count`; a moment later there are no more."""
    settings = server.librdkafka(BY_CERTIFICATE, **{"group.id": "reader", "auto.offset.reset": "earliest"})
    consumer, found = Consumer(settings), 0
    consumer.subscribe(["t"])

    def read() -> bool:
        nonlocal found
        for message in consumer.consume(10_000, 1.0):
            assert message.error() is None
            found += 1
        return found >= count

    try:
        eventually(read, WAIT_S, f"{count} records")
        read()
    finally:
        consumer.close()
    return found


class Clients:
    """The load on one topic. Clients trust both authorities from the start on."""

    def __init__(self, server: SecuredServer) -> None:
        self._server = server
        self.by_librdkafka: list[PacedProducer] = []
        self.by_java: list[JavaProducer] = []

    def librdkafka(self, door: Door) -> PacedProducer:
        settings = self._server.librdkafka(door)
        load = PacedProducer(self._server.bootstrap_of(door), "t", PARTITIONS, records_s=RECORDS_S, **settings)
        self.by_librdkafka.append(load)
        return load

    def java(self) -> None:
        self.by_java.append(JavaProducer(self._server, "t", f"java-{len(self.by_java)}"))

    def go_on(self) -> None:
        """Return once each of them has written more."""
        for load in self.by_librdkafka:
            load.wait_for_every_partition(50)
        for java in self.by_java:
            java.go_on(100)

    def finish(self) -> int:
        """How many records were written. Raises AssertionError: one failed."""
        for load in self.by_librdkafka:
            load.finish()
            assert load.failed == [], load.failed[:3]
            assert len(load.acknowledged) == load.sent_count
        return sum(load.sent_count for load in self.by_librdkafka) + sum(java.finish() for java in self.by_java)

    def stop(self) -> None:
        """Whatever has become of them; after `finish` nothing is left."""
        for java in self.by_java:
            java.kill()
        for load in self.by_librdkafka:
            load.stop()


def test_no_record_fails_while_secrets_are_replaced(tmp_path: Path) -> None:
    """Connections by SCRAM-SHA-256 log in again every two seconds; those of Java stay."""
    server = SecuredServer(
        tmp_path / "data", {"listener.name.sasl_ssl.scram-sha-256.connections.max.reauth.ms": str(SESSION_MS)}
    )
    server.make_user()
    other = trustme.CA()
    both = server.authority.cert_pem.bytes() + other.cert_pem.bytes()
    own_trust, server.trust = server.trust, server.write("clients-ca.pem", both)
    clients = Clients(server)
    server.start()
    try:
        admin = AdminClient(server.librdkafka(BY_CERTIFICATE))
        admin.create_topics([NewTopic("t", PARTITIONS, 1)])["t"].result(WAIT_S)
        old_certificate = server.librdkafka(BY_CERTIFICATE)
        by_password = clients.librdkafka(BY_PASSWORD)
        clients.librdkafka(BY_CERTIFICATE)
        clients.java()
        clients.go_on()
        # The authority: first the server believes both, then it shows a certificate of the new one, as clients do; then the
        # old one is no longer believed.
        renewed(server, lambda: server.write(own_trust.name, both))
        clients.go_on()
        server.authority = other
        renewed(server, server.issue_node)
        server.certificate = server.issue(f"{USER}-2", USER)
        clients.librdkafka(BY_CERTIFICATE)
        clients.go_on()
        assert logs_in(old_certificate)
        renewed(server, lambda: server.write(own_trust.name, other.cert_pem.bytes()))
        clients.go_on()
        assert not logs_in(old_certificate)
        # The password: librdkafka takes the new one as it runs, Java's producer gives way to another one.
        old_password = server.librdkafka(BY_PASSWORD)
        new_password(server)
        by_password._producer.set_sasl_credentials(USER, NEW_PASSWORD)
        server.password = NEW_PASSWORD
        clients.java()
        clients.go_on()
        by_password.go_on_for(2 * SESSION_MS / 1000)  # sessions have to pass in real time
        clients.go_on()
        assert not logs_in(old_password)
        count = clients.finish()
        assert written(server, count) == count
        log = server.process.log_of_this_run()
        assert "Traceback" not in log and PASSWORD not in log and NEW_PASSWORD not in log
        assert '"certificate_not_renewed"' not in log
    finally:
        clients.stop()
        server.close()
