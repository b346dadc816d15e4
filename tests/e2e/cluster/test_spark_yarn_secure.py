"""Spark jobs on a kerberized YARN and HDFS: the driver has a keytab, executors the tokens that the driver got.

The tests are those of the open cluster, and streams that run for longer than tickets and tokens live: once over their end,
or for STREAM_MINUTES of the environment, with a killed driver in the middle. In client mode the next job goes on, in
cluster mode YARN starts the driver again. And Spark's own connector, whose executors log in to Kafka by tokens.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import pytest

from testing.patience import Patience
from testing.table_topics import order, produce
from tests.e2e.cluster import test_spark_yarn
from tests.e2e.cluster.test_spark_yarn import ON_YARN, World, document, jvm_options, spark_world
from tests.e2e.conftest import create_topic
from tests.support.kerberos_server import KerberosServer
from tests.support.same_tests import same_tests
from tests.support.secure_hdfs import Protection, SecureHdfs, secure_hdfs
from tests.support.yarn import YarnCluster, YarnKerberos

TICKET_LIFE_S: Final = 120
# Of each driver, which is killed then: longer than its first tickets and tokens live.
LIFE_S: Final = TICKET_LIFE_S + 10.0
STREAM_MINUTES: Final = float(os.environ.get("STREAM_MINUTES", "0"))
DRIVER_LIVES_S: Final = (STREAM_MINUTES * 30,) * 2 if STREAM_MINUTES * 30 > LIFE_S else (LIFE_S,)
# Of the second driver in cluster mode; the first one is killed once it has written.
CLUSTER_LIFE_S: Final = max(STREAM_MINUTES * 60, LIFE_S)
# Starts of all daemons, first batches and the last driver, on a busy machine.
STARTS_S: Final = 600 * (1 + len(DRIVER_LIVES_S))
# A token counts for the first time unless it is renewed, and with renewals for the second.
TOKEN_INTERVAL_S, TOKEN_LIFE_S = 120, 360
SHORT_TOKENS: Final = {
    "dfs.namenode.delegation.token.renew-interval": str(TOKEN_INTERVAL_S * 1000),
    "dfs.namenode.delegation.token.max-lifetime": str(TOKEN_LIFE_S * 1000),
}
pytestmark = [
    pytest.mark.campaign("spark-cluster"),
    pytest.mark.bmq_only,
    pytest.mark.timeout(STARTS_S + max(sum(DRIVER_LIVES_S), CLUSTER_LIFE_S)),
]

STREAM, CLUSTER_STREAM, CONNECTOR_TOPIC = "stream", "cluster-stream", "by-token"
JOB = "tests/e2e/spark_stream_job.py"
TRIGGER_S: Final = 2
PIECE: Final = 200
FILL: Final = "x" * 6_000  # a segment for each piece, which executors read from HDFS once it is closed
FIRST_BATCH_WAIT_S: Final = 200.0
BATCH_WAIT_S: Final = 60.0
END_WAIT_S: Final = 120.0
PIECES: Final = round(CLUSTER_LIFE_S / 10)  # of the stream in cluster mode


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureHdfs]:
    secured = secure_hdfs(
        tmp_path_factory.mktemp("spark-yarn-hdfs"),
        Protection(rpc="integrity", data="privacy", is_aes=True),
        datanodes=2,
        properties=SHORT_TOKENS,
        ticket_life_s=TICKET_LIFE_S,
    )
    with secured as cluster:
        yield cluster


@pytest.fixture(scope="module")
def world(secure: SecureHdfs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The driver's Python has no login but the keytab that Spark was given; executors have none."""
    directory = tmp_path_factory.mktemp("spark-yarn-secure")
    yarn = YarnCluster(directory / "yarn", secure.cluster, kerberos=YarnKerberos.of(secure))
    krb5_conf = str(secure.kdc.krb5_conf)
    settings = {
        "spark.kerberos.principal": secure.principal,
        "spark.kerberos.keytab": str(secure.keytab),
        # As on nodes of Hadoop.
        "spark.executorEnv.HADOOP_CONF_DIR": str(yarn.configuration),
        "spark.yarn.appMasterEnv.HADOOP_CONF_DIR": str(yarn.configuration),
        "spark.yarn.appMasterEnv.KRB5_CONFIG": krb5_conf,
    }
    environment = {"KRB5_CONFIG": krb5_conf, "KRB5CCNAME": f"FILE:{directory / 'no-tickets'}"}
    with spark_world(directory, secure.cluster, yarn, settings, environment) as found:
        yield found


globals().update(same_tests(test_spark_yarn, lambda fixtures: "world" in fixtures))


class Stream:
    """What is produced, and the job that writes it into a table: at most one driver at a time."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._command = (ON_YARN, JOB, world.bootstrap, STREAM, f"{world.url}/spark-yarn-stream")
        self._told = world.directory / "stream.out"
        self._running: subprocess.Popen[bytes] | None = None
        self.produced = 0

    def produce(self) -> None:
        numbers = range(self.produced, self.produced + PIECE)
        produce(self._world.bootstrap, STREAM, [order(number, fill=FILL) for number in numbers], 1)
        self.produced += PIECE

    def start(self) -> None:
        with self._told.open("wb") as output:
            self._running = subprocess.Popen(
                self._world.command(*self._command, str(TRIGGER_S)),
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._world.directory,
                env=self._world.whole_environment,
                start_new_session=True,
            )

    def kill(self) -> None:
        if self._running is not None:
            with suppress(ProcessLookupError):  # it ended by itself, which has been told
                os.killpg(self._running.pid, signal.SIGKILL)
            self._running.wait()
            self._running = None

    def wait_written(self, wait_s: float) -> None:
        assert self._running is not None
        patience = Patience(wait_s)
        while self._rows() < self.produced:
            assert self._running.poll() is None, self._output()
            assert not patience.is_over(), self._output()
            time.sleep(0.2)

    def sums(self) -> list[int]:
        """Of the table, when a last driver has written what is there: rows, sum of numbers, different numbers."""
        found: list[int] = document(self._world.submit(*self._command, "0"))["sums"]
        return found

    def _rows(self) -> int:
        lines = [json.loads(line) for line in self._told.read_text().splitlines() if line.startswith('{"rows"')]
        return max((int(line["rows"]) for line in lines), default=0)

    def _output(self) -> str:
        return self._told.read_text()[-8_000:] + self._world.yarn.output_of_containers()


def test_a_stream_outlives_tickets_tokens_and_its_driver(world: World) -> None:
    """Batches go on when all that the job began with has ended, and the next job goes on where a killed one was."""
    create_topic(world.server, STREAM, 1, {"segment.bytes": str(1 << 20)})
    stream = Stream(world)
    for life_s in DRIVER_LIVES_S:
        stream.produce()
        stream.start()
        try:
            stream.wait_written(FIRST_BATCH_WAIT_S)
            # The subject is time itself: what the driver was given when it began ends meanwhile.
            ends_s = time.monotonic() + life_s
            while time.monotonic() < ends_s:
                stream.produce()
                stream.wait_written(BATCH_WAIT_S)
            stream.produce()
        finally:
            stream.kill()
    stream.produce()
    assert stream.sums() == [stream.produced, sum(range(stream.produced)), stream.produced]


class ClusterStream:
    """The job whose driver is in YARN's first container, and ends by itself once the table has all pieces."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._told = world.directory / "cluster.out"
        self._running: subprocess.Popen[bytes] | None = None
        self.produced = 0

    def produce(self) -> None:
        numbers = range(self.produced, self.produced + PIECE)
        produce(self._world.bootstrap, CLUSTER_STREAM, [order(number, fill=FILL) for number in numbers], 1)
        self.produced += PIECE

    def start(self) -> None:
        directory = f"{self._world.url}/spark-yarn-cluster-stream"
        on_yarn = ("--master", "yarn", "--deploy-mode", "cluster", "--num-executors", "2", "--conf")
        command = self._world.command(
            (*on_yarn, f"spark.driver.extraJavaOptions={jvm_options(self._world.yarn)}"),
            *(JOB, self._world.bootstrap, CLUSTER_STREAM, directory, str(TRIGGER_S), str(PIECES * PIECE)),
        )
        with self._told.open("wb") as output:
            self._running = subprocess.Popen(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._world.directory,
                env=self._world.whole_environment,
            )

    def wait_written(self, wait_s: float) -> None:
        assert self._running is not None
        patience = Patience(wait_s)
        while max((line["rows"] for line in self._lines("rows")), default=0) < self.produced:
            assert self._running.poll() is None and not patience.is_over(), self._output()
            time.sleep(0.2)

    def drivers(self) -> list[int]:
        """The processes of each driver until now."""
        return [line["driver"] for line in self._lines("driver")]

    def sums(self) -> list[int]:
        """As the job said them at its end."""
        assert self._running is not None
        assert self._running.wait(Patience(END_WAIT_S).limit_s) == 0, self._output()
        (line,) = self._lines("sums")
        found: list[int] = line["sums"]
        return found

    def close(self) -> None:
        """Nothing of it is left, however it ended."""
        if self._running is not None and self._running.poll() is None:
            self._running.kill()
            self._running.wait()
            # YARN starts a driver again; it has no third try.
            patience = Patience(FIRST_BATCH_WAIT_S)
            while len(self.drivers()) < 2 and not patience.is_over():
                kill_process(self.drivers()[-1:])
                time.sleep(0.2)
            kill_process(self.drivers()[-1:])

    def _lines(self, name: str) -> list[dict[str, Any]]:
        """What drivers in containers have printed."""
        found = []
        for path in sorted((self._world.yarn.directory / "containers").glob("*/*_000001/stdout")):
            lines = path.read_text().splitlines()
            found += [json.loads(line) for line in lines if line.startswith(f'{{"{name}"')]
        return found

    def _output(self) -> str:
        return self._told.read_text()[-8_000:] + self._world.yarn.output_of_containers()


def kill_process(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_a_stream_in_cluster_mode_outlives_tickets_tokens_and_its_driver(world: World) -> None:
    """The driver has the keytab that YARN brought it; killed, it is started again and goes on where it was."""
    create_topic(world.server, CLUSTER_STREAM, 1, {"segment.bytes": str(1 << 20)})
    stream = ClusterStream(world)
    stream.produce()
    stream.start()
    try:
        stream.wait_written(FIRST_BATCH_WAIT_S)
        (first,) = stream.drivers()
        kill_process([first])
        stream.produce()
        stream.wait_written(FIRST_BATCH_WAIT_S)
        second = stream.drivers()
        assert len(second) == 2 and second[0] == first != second[1]
        # The subject is time itself: what the second driver was given when it began ends meanwhile.
        began_s = time.monotonic()
        for piece in range(2, PIECES):
            while time.monotonic() < began_s + CLUSTER_LIFE_S * (piece - 1) / (PIECES - 2):
                time.sleep(0.1)
            stream.produce()
            stream.wait_written(BATCH_WAIT_S)
        assert stream.drivers() == second
        assert stream.sums() == [stream.produced, sum(range(stream.produced)), stream.produced]
    finally:
        stream.close()


def test_the_connector_s_executors_log_in_by_kafka_s_tokens(world: World, secure: SecureHdfs) -> None:
    """Spark's token provider gets one by Kerberos for the driver and gives it to executors, which log in by SCRAM."""
    more = {
        "sasl.enabled.mechanisms": "GSSAPI,SCRAM-SHA-512",
        "delegation.token.secret.key": "key-of-tokens-7",
        "super.users": "User:bmq",
    }
    server = KerberosServer(world.directory / "kafka", secure.kdc, more=more)
    server.start()
    try:
        cluster = {
            "auth.bootstrap.servers": server.advertised,
            "target.bootstrap.servers.regex": "localhost:.*",
            "security.protocol": "SASL_PLAINTEXT",
        }
        given = [
            word for name, text in cluster.items() for word in ("--conf", f"spark.kafka.clusters.bmq.{name}={text}")
        ]
        printed = world.submit(
            (*ON_YARN, *given),
            *("tests/e2e/spark_kafka_tokens_job.py", server.advertised, CONNECTOR_TOPIC, f"{world.url}/by-token"),
        )
        found = document(printed)
        assert found["read"] == found["streamed"] == [f"value {number}" for number in range(found["written"])]
        assert found["executors"] >= 1
        logged = [json.loads(line) for line in server.process.log_of_this_run().splitlines() if line.startswith("{")]
        logins = Counter(
            (one["principal"], one["mechanism"]) for one in logged if one["event"] == "client_authenticated"
        )
        by_kerberos, by_token = ("User:bmq", "GSSAPI"), ("User:bmq", "SCRAM-SHA-512")
        assert logins.keys() == {by_kerberos, by_token}
        # Each token is a client that asks for it; all that reads and writes has a token.
        tokens = [one for one in logged if one["event"] == "delegation_token_created"]
        assert 1 <= len(tokens) <= logins[by_kerberos] < logins[by_token]
        assert server.stop() == 0
    finally:
        server.close()
