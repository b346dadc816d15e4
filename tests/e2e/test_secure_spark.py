"""Spark on a kerberized HDFS: tokens are renewed for tasks that begin late, and nothing that Spark shows has a secret.

The driver's only login is the keytab that Spark was given.
"""

from __future__ import annotations

import json
from base64 import b64decode, standard_b64encode, urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import pytest

from testing.hdfs import fresh_root
from testing.servers import BmqServer
from testing.table_topics import produce
from tests.e2e.conftest import create_topic
from tests.support.hdfs_servers import server_on
from tests.support.secure_hdfs import Protection, SecureHdfs, secure_hdfs
from tests.support.spark import SPARK_ENVIRONMENT, job_result, link_spark, run_job

pytestmark = [pytest.mark.campaign("spark-tables"), pytest.mark.bmq_only, pytest.mark.timeout(700)]

TOPIC, COUNT, MORE = "secured", 40, 10
VALUE_BYTES: Final = 150_000
SEGMENT_BYTES: Final = 1 << 20
# Without a renewal, and with as many as there may be.
TOKEN_INTERVAL_S, TOKEN_LIFE_S = 40, 3_600
# The first of the tasks, which run one after the other.
FIRST_TASK_S: Final = TOKEN_INTERVAL_S + 10.0
USER, PASSWORD, KEY = "alice", "planted-1-in-jaas", "planted-2-in-a-key"
JAAS: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"


class World(NamedTuple):
    secure: SecureHdfs
    server: BmqServer
    root: str


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A topic of which most is in closed segments, which executors read from HDFS."""
    directory, root = tmp_path_factory.mktemp("secure-spark"), fresh_root("spark")
    tokens = {"renew-interval": TOKEN_INTERVAL_S, "max-lifetime": TOKEN_LIFE_S}
    properties = {f"dfs.namenode.delegation.token.{name}": str(life_s * 1000) for name, life_s in tokens.items()}
    protection = Protection(rpc="privacy", data="privacy", is_aes=True)
    with secure_hdfs(directory / "hdfs", protection, datanodes=2, properties=properties) as secure:
        server = server_on(secure.cluster, directory / "server", root)
        server.start()
        try:
            create_topic(server, TOPIC, 1, {"segment.bytes": str(SEGMENT_BYTES)})
            for number in range(COUNT):
                produce(server.bootstrap, TOPIC, [f"value {number}".ljust(VALUE_BYTES, "x").encode()], 1)
            yield World(secure, server, root)
            assert server.is_running
        finally:
            server.close()


def environment(world: World, directory: Path) -> dict[str, str]:
    """Of a driver: no ticket, and a keytab only in Spark's settings."""
    link_spark(directory / "spark")
    # Spark logs in by the keytab, too; KRB5_CONFIG is for Python.
    options = (SPARK_ENVIRONMENT["SPARK_SUBMIT_OPTS"], f"-Djava.security.krb5.conf={world.secure.kdc.krb5_conf}")
    return {
        "SPARK_SUBMIT_OPTS": " ".join(options),
        "HADOOP_CONF_DIR": str(world.secure.client_conf),
        "KRB5CCNAME": f"FILE:{directory / 'no-tickets'}",
        "SPARK_HOME": str(directory / "spark"),
    }


def test_tasks_that_begin_late_read_by_a_renewed_token(world: World, tmp_path: Path) -> None:
    told = tmp_path / "told.json"
    login = {"principal": world.secure.principal, "keytab": str(world.secure.keytab)}
    where = {"bootstrap": world.server.bootstrap, "topic": TOPIC, "first_task_s": FIRST_TASK_S}
    told.write_text(json.dumps({**login, **where}))
    found = job_result("tests.e2e.spark_late_tasks_job", told, tmp_path / "warehouse", **environment(world, tmp_path))
    began_s = found["began_s"]
    # The plan's token is older than the first of them.
    assert len(began_s) >= 3 and began_s[1] - began_s[0] > TOKEN_INTERVAL_S
    assert found["read"] == COUNT
    assert found["streamed"] == [COUNT, COUNT + MORE]
    # One for the tasks, and one for a later batch at least: not one for each plan.
    assert 2 <= found["tokens"] <= 5


def forms(secret: bytes) -> set[bytes]:
    """How a text may have it."""
    texts = {secret.hex(), standard_b64encode(secret).decode(), urlsafe_b64encode(secret).decode().rstrip("=")}
    return {secret, quote(secret).encode(), *(text.encode() for text in texts)}


def everything_in(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_nothing_that_spark_shows_has_a_secret(world: World, tmp_path: Path) -> None:
    """Not its log of events, plans, interface, checkpoints or log, and no error."""
    configs = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": f'{JAAS} user_{USER}="{PASSWORD}";',
    }
    with_logins = BmqServer(tmp_path / "with-logins", {"BMQ_KAFKA": json.dumps(configs)})
    with_logins.start()
    try:
        secrets = {
            "kafka.sasl.jaas.config": f'{JAAS} username="{USER}" password="{PASSWORD}";',
            "kafka.ssl.keystore.key": f"-----BEGIN PRIVATE KEY-----\n{KEY}\n-----END PRIVATE KEY-----",
        }
        by_password = {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN", **secrets}
        bmq = {"kafka.bootstrap.servers": world.server.bootstrap, "subscribe": TOPIC, **secrets}
        told: dict[str, Any] = {
            "kafka": {"kafka.bootstrap.servers": with_logins.bootstrap, "subscribe": "by-password", **by_password},
            "bmq": bmq,
            "refused": [by_password, {"kafka.interceptor.classes": KEY}, {"bmq.unknown": KEY}],
            "principal": world.secure.principal,
            "keytab": str(world.secure.keytab),
            "shown": str(tmp_path / "shown"),
        }
        (tmp_path / "told.json").write_text(json.dumps(told))
        done = run_job(
            "tests.e2e.spark_secrets_job",
            tmp_path / "told.json",
            tmp_path / "warehouse",
            **environment(world, tmp_path),
        )
    finally:
        with_logins.close()
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["kafka"] == {"read": 3, "streamed": 3}
    assert found["bmq"]["read"] == found["bmq"]["streamed"] >= COUNT
    shown = everything_in(tmp_path / "shown")
    shown |= {"log": done.stderr.encode(), "errors": json.dumps(found["refused"]).encode()}
    # It is all there, and of the right job.
    assert any(name.startswith("events/") and TOPIC.encode() in text for name, text in shown.items())
    for name in ("rest-environment", "rest-sql", "page-SQL", "page-environment", "plans-bmq.txt", "plans-kafka.txt"):
        assert len(shown[name]) > 500, name
    assert b"spark.kerberos.keytab" in shown["rest-environment"] and b"(redacted)" in shown["rest-environment"]
    assert found["tokens"]
    of_hdfs = [b64decode(text) for token in found["tokens"] for text in token]
    for secret in (PASSWORD.encode(), KEY.encode(), *of_hdfs):
        assert len(secret) > 8
        assert [name for name, text in shown.items() if any(form in text for form in forms(secret))] == []
