"""Clients log in by Kerberos with a real KDC: Java's console tools and kafka-python, in clear text and in TLS."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import gssapi
import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import ACL, ACLOperation, ACLPermissionType, NewTopic, ResourcePattern, ResourceType
from kafka.errors import TopicAuthorizationFailedError

from bmq.dev.kdc import Kdc
from bmq.security.sasl.gssapi import OFFER
from testing.java import CONSOLE_CONSUMER, CONSOLE_PRODUCER, SHORT_LIVED_JVM_OPTIONS, ToolResult, run_tool
from testing.kdc import running_kdc, used_here
from testing.patience import Patience
from testing.processes import dying_with_us
from testing.servers import bmq_command, standalone_arguments
from tests.e2e.conftest import unique_name
from tests.support.kerberos_server import MAPPED, SERVICE, SESSION_MS, SUPER_USER, KerberosServer
from tests.support.logged_in import LoggedIn, LoginRefused
from tests.support.wrong_clock import clock_off_by

pytestmark = [pytest.mark.bmq_only, pytest.mark.timeout(240), pytest.mark.usefixtures("sockets_of_kafka_python")]
in_gate = pytest.mark.clients
in_campaign = pytest.mark.campaign("kafka")

WAIT_S: Final = 30.0
SKEW_S: Final = 900
"""Kerberos allows 300."""
REFUSED: Final = 58
METRICS_FOR_ALL: Final = ACL(
    "User:ANONYMOUS",
    "*",
    ACLOperation.DESCRIBE,
    ACLPermissionType.ALLOW,
    ResourcePattern(ResourceType.CLUSTER, "kafka-cluster"),
)
VERIFIABLE_PRODUCER: Final = "org.apache.kafka.tools.VerifiableProducer"


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    with running_kdc(tmp_path_factory.mktemp("realm")) as made:
        yield made


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, kdc: Kdc) -> Iterator[KerberosServer]:
    made = KerberosServer(tmp_path_factory.mktemp("kerberos") / "data", kdc)
    try:
        made.start()
        with ticket(kdc, SUPER_USER, made.directory.parent), KafkaAdminClient(**made.kafka_python()) as admin:
            admin.create_acls([METRICS_FOR_ALL])
        yield made
    finally:
        made.close()
    assert "Traceback" not in made.log_file.read_text()


@pytest.fixture
def topic(server: KerberosServer, kdc: Kdc, tmp_path: Path) -> str:
    name = unique_name("kerberos")
    with ticket(kdc, SUPER_USER, tmp_path), KafkaAdminClient(**server.kafka_python()) as admin:
        admin.create_topics([NewTopic(name, 1, 1)])
    return name


def ticket(kdc: Kdc, name: str, directory: Path) -> Any:
    """A context: this process's clients log in as the principal."""
    cache = directory / unique_name("tickets")
    kdc.login(name, cache)
    return used_here(kdc, KRB5CCNAME=f"FILE:{cache}")


def produce(server: KerberosServer, topic: str, value: bytes, *, is_tls: bool = False) -> None:
    with KafkaProducer(**server.kafka_python(is_tls=is_tls)) as producer:
        producer.send(topic, value).get(timeout=WAIT_S)


def consumed(server: KerberosServer, topic: str, *, is_tls: bool = False) -> list[bytes]:
    settings = server.kafka_python(is_tls=is_tls, group_id=topic, auto_offset_reset="earliest")
    with KafkaConsumer(topic, **settings) as consumer:
        return [one.value for part in consumer.poll(timeout_ms=WAIT_S * 1000).values() for one in part]


def java(
    server: KerberosServer,
    kdc: Kdc,
    name: str,
    tool: str,
    *arguments: str,
    is_tls: bool,
    stdin: str = "",
    check: bool = True,
) -> ToolResult:
    """By a tool in a JVM of its own, as the address of the KDC is a property of the whole JVM."""
    return run_tool(
        tool,
        *("--bootstrap-server", server.address(is_tls=is_tls)),
        *("--command-config", str(server.java_file(kdc, name, is_tls=is_tls)), *arguments),
        stdin=stdin,
        jvm_options=(*SHORT_LIVED_JVM_OPTIONS, f"-Djava.security.krb5.conf={kdc.krb5_conf}"),
        check=check,
    )


def closed(server: KerberosServer) -> list[str]:
    """Why the server has closed connections."""
    log = server.process.log_of_this_run()
    return [line for line in log.splitlines() if '"connection_closed"' in line]


def first_token(kdc: Kdc, directory: Path, name: str = SUPER_USER) -> bytes:
    with ticket(kdc, name, directory):
        token: bytes = context_of_client().step()
        return token


def context_of_client() -> gssapi.SecurityContext:
    service = gssapi.Name(SERVICE.replace("/", "@"), gssapi.NameType.hostbased_service)
    return gssapi.SecurityContext(name=service, usage="initiate")


def log_in(server: KerberosServer, token: bytes) -> bytes:
    """The server's answer. Raises LoginRefused; OSError or EOFError where it closes without one."""
    with LoggedIn(server.port) as connection:
        connection.handshake("GSSAPI")
        return connection.authenticate(token)


def sessions_expired(server: KerberosServer) -> float:
    """How many connections were cut off since the start because their clients did not log in again in time."""
    (line,) = [one for one in server.metrics().splitlines() if one.startswith("bmq_sessions_expired_total ")]
    return float(line.split()[-1])


# --- what works


@in_gate
@pytest.mark.parametrize("is_tls", [False, True])
def test_kafka_python(server: KerberosServer, kdc: Kdc, topic: str, tmp_path: Path, is_tls: bool) -> None:
    with ticket(kdc, MAPPED, tmp_path):
        produce(server, topic, b"kafka-python", is_tls=is_tls)
        assert consumed(server, topic, is_tls=is_tls) == [b"kafka-python"]


def java_in_and_out(server: KerberosServer, kdc: Kdc, topic: str, *, is_tls: bool) -> None:
    java(server, kdc, SUPER_USER, CONSOLE_PRODUCER, "--topic", topic, stdin="java\n", is_tls=is_tls)
    read = ("--topic", topic, "--from-beginning", "--max-messages", "1", "--timeout-ms", "30000")
    assert java(server, kdc, MAPPED, CONSOLE_CONSUMER, *read, is_tls=is_tls).out.splitlines()[0] == "java"


@in_gate
def test_javas_console_tools_in_tls(server: KerberosServer, kdc: Kdc, topic: str) -> None:
    java_in_and_out(server, kdc, topic, is_tls=True)


@in_campaign
def test_javas_console_tools_in_clear_text(server: KerberosServer, kdc: Kdc, topic: str) -> None:
    java_in_and_out(server, kdc, topic, is_tls=False)


@in_campaign
def test_java_logs_in_again_before_its_session_ends(server: KerberosServer, kdc: Kdc, topic: str) -> None:
    """Over three sessions of one producer not a record fails, and no session expires."""

    def logins() -> int:
        return server.process.log_of_this_run().count('"client_authenticated"')

    before, seconds = logins(), 3 * SESSION_MS // 1000
    limits = ("--topic", topic, "--throughput", "20", "--max-messages", str(20 * seconds))
    done = java(server, kdc, SUPER_USER, VERIFIABLE_PRODUCER, *limits, is_tls=True)
    assert "producer_send_error" not in done.out and done.out.count("producer_send_success") == 20 * seconds
    # A connection for the addresses, and that of the records, which logs in anew each 2.55 to 2.85 s.
    assert logins() - before >= 4
    assert sessions_expired(server) == 0


@in_campaign
def test_kafka_python_logs_in_again_before_its_session_ends(
    server: KerberosServer, kdc: Kdc, topic: str, tmp_path: Path
) -> None:
    with ticket(kdc, SUPER_USER, tmp_path), KafkaProducer(**server.kafka_python(is_tls=True)) as producer:
        began_s, sent = time.monotonic(), 0
        while time.monotonic() - began_s < 2.5 * SESSION_MS / 1000:
            producer.send(topic, b"again").get(timeout=WAIT_S)
            time.sleep(0.1)  # the session has to pass in real time
            sent += 1
    assert sent > 10 and sessions_expired(server) == 0


@in_campaign
def test_acls_are_those_of_the_mapped_principal(server: KerberosServer, kdc: Kdc, topic: str, tmp_path: Path) -> None:
    """bob/localhost is User:bob by DEFAULT, ops/day is User:operator-day by a rule; neither may do anything at first."""
    for principal, user in (("bob/localhost", "bob"), ("ops/day", "operator-day")):
        with ticket(kdc, principal, tmp_path), pytest.raises(TopicAuthorizationFailedError):
            produce(server, topic, b"no")
        assert f"Principal = User:{user} is Denied operation" in server.log_file.read_text()
        right = ACL(
            f"User:{user}", "*", ACLOperation.WRITE, ACLPermissionType.ALLOW, ResourcePattern(ResourceType.TOPIC, topic)
        )
        with ticket(kdc, SUPER_USER, tmp_path), KafkaAdminClient(**server.kafka_python()) as admin:
            admin.create_acls([right])
        with ticket(kdc, principal, tmp_path):
            produce(server, topic, user.encode())
    with ticket(kdc, SUPER_USER, tmp_path):
        assert consumed(server, topic) == [b"bob", b"operator-day"]


@in_campaign
def test_new_keys_count_without_a_restart(server: KerberosServer, kdc: Kdc, topic: str, tmp_path: Path) -> None:
    """A ticket for the old key, sent after the keytab was replaced by one with the new key alone, is refused for good."""
    old = first_token(kdc, tmp_path)
    kdc.admin(f"cpw -randkey {kdc.principal(SERVICE)}")
    made = kdc.keytab(SERVICE, file=unique_name("renewed"))
    os.replace(made, server.keytab)  # noqa: PTH105
    with ticket(kdc, SUPER_USER, tmp_path):
        produce(server, topic, b"by the new key")
        assert consumed(server, topic) == [b"by the new key"]
    before = len(closed(server))
    with pytest.raises(LoginRefused) as refused:
        log_in(server, old)
    assert refused.value.code == REFUSED and "invalid credentials" in str(refused.value)
    (line,) = closed(server)[before:]
    assert f"its ticket is not for a key of {server.keytab}" in line


# --- bad input: one line in the log for each


@in_campaign
def test_a_principal_that_no_rule_is_for(server: KerberosServer, kdc: Kdc, tmp_path: Path) -> None:
    with ticket(kdc, "a/b/c", tmp_path), LoggedIn(server.port) as connection:
        context, before = context_of_client(), len(closed(server))
        connection.handshake("GSSAPI")
        mutual = connection.authenticate(context.step())
        offer = context.unwrap(connection.authenticate(context.step(mutual) or b"")).message
        assert offer == OFFER
        with pytest.raises(LoginRefused) as refused:
            connection.authenticate(context.wrap(offer, False).message)
    assert refused.value.code == REFUSED and "invalid credentials" in str(refused.value)
    (line,) = closed(server)[before:]
    assert f"the principal 'a/b/c@{kdc.realm}' has not the form NAME/HOST@REALM" in line


@in_campaign
@pytest.mark.parametrize("token", [b"", b"\x60", b"no token", bytes(40_000)], ids=["empty", "cut", "text", "zeros"])
def test_what_is_no_token(server: KerberosServer, token: bytes) -> None:
    before = len(closed(server))
    with pytest.raises(LoginRefused) as refused:
        log_in(server, token)
    assert refused.value.code == REFUSED
    (line,) = closed(server)[before:]
    assert "its authentication by GSSAPI failed" in line


@in_campaign
def test_a_keytab_that_goes_away_is_not_final_for_clients(
    server: KerberosServer, kdc: Kdc, topic: str, tmp_path: Path
) -> None:
    """No answer that would end a Java client: the connection is closed, and the same client comes in later."""
    away = server.keytab.with_name("away")
    token, before = first_token(kdc, tmp_path), len(closed(server))
    server.keytab.rename(away)
    try:
        with pytest.raises((OSError, EOFError)):
            log_in(server, token)
        (line,) = closed(server)[before:]
        assert f"the keytab {server.keytab} cannot be read: No such file or directory" in line
    finally:
        away.rename(server.keytab)
    with ticket(kdc, SUPER_USER, tmp_path):
        produce(server, topic, b"again")


@in_campaign
@pytest.mark.parametrize("seconds", [-SKEW_S, SKEW_S])
def test_a_clock_that_is_wrong(kdc: Kdc, tmp_path: Path, seconds: int) -> None:
    server = KerberosServer(tmp_path / "data", kdc, clock_off_by(seconds))
    try:
        server.start()
        token = first_token(kdc, tmp_path)
        if seconds > 0:
            with pytest.raises(LoginRefused) as refused:
                log_in(server, token)
            assert refused.value.code == REFUSED
        else:
            with pytest.raises((OSError, EOFError)):
                log_in(server, token)
        (line,) = closed(server)
        assert re.search(r"the clock of its machine differs from the one here: set both right|not yet valid", line)
    finally:
        server.close()


@in_campaign
def test_a_keytab_without_the_key_stops_the_start(tmp_path: Path, kdc: Kdc) -> None:
    other = kdc.keytab("other/localhost")
    for keytab, why in (
        (other, "has no usable key of"),
        (tmp_path / "none", "cannot be read: No such file"),
        (tmp_path, "cannot be read: Is a directory"),
    ):
        settings = tmp_path / "bmq.toml"
        settings.write_text(
            "[kafka]\n'listener.security.protocol.map' = 'PLAINTEXT:SASL_PLAINTEXT'\n"
            "'sasl.enabled.mechanisms' = 'GSSAPI'\n"
            f"'bmq.sasl.kerberos.principal' = '{kdc.full(SERVICE)}'\n'bmq.sasl.kerberos.keytab' = '{keytab}'\n"
        )
        done = subprocess.run(
            dying_with_us([bmq_command(), *standalone_arguments(tmp_path / "data"), "--config", str(settings)]),
            env={**os.environ, "KRB5_CONFIG": str(kdc.krb5_conf)},
            capture_output=True,
            text=True,
            timeout=Patience(20).limit_s,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        sentences = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("{")]
        assert done.returncode == 1 and len(sentences) == 1, done.stderr
        assert why in sentences[0] and str(keytab) in sentences[0]
