"""Spark jobs on a kerberized YARN and HDFS: the driver has a keytab, executors the tokens that the driver got.

The tests are those of the open cluster, and a stream that runs for longer than tickets and tokens live: once over their end,
or for STREAM_MINUTES of the environment, with a killed driver in the middle too.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import pytest

from tests.e2e.cluster import test_spark_yarn
from tests.e2e.cluster.test_spark_yarn import ON_YARN, World, document, spark_world
from tests.e2e.conftest import create_topic
from tests.support.patience import Patience
from tests.support.same_tests import same_tests
from tests.support.secure_hdfs import Protection, secure_hdfs
from tests.support.table_topics import order, produce
from tests.support.yarn import YarnCluster, YarnKerberos

TICKET_LIFE_S: Final = 120
# Of each driver, which is killed then: longer than its first tickets and tokens live.
LIFE_S: Final = TICKET_LIFE_S + 10.0
STREAM_MINUTES: Final = float(os.environ.get("STREAM_MINUTES", "0"))
DRIVER_LIVES_S: Final = (STREAM_MINUTES * 30,) * 2 if STREAM_MINUTES * 30 > LIFE_S else (LIFE_S,)
# Starts of all daemons, first batches and the last driver, on a busy machine.
STARTS_S: Final = 600 * (1 + len(DRIVER_LIVES_S))
# A plan's last task has to begin within this time.
TOKEN_LIFE_S: Final = 120
SHORT_TOKENS: Final = {
    f"dfs.namenode.delegation.token.{name}": str(TOKEN_LIFE_S * 1000) for name in ("renew-interval", "max-lifetime")
}
pytestmark = [
    pytest.mark.campaign("spark-cluster"),
    pytest.mark.bmq_only,
    pytest.mark.timeout(STARTS_S + sum(DRIVER_LIVES_S)),
]

STREAM = "stream"
JOB = "tests/e2e/spark_stream_job.py"
TRIGGER_S: Final = 2
PIECE: Final = 200
FILL: Final = "x" * 6_000  # a segment for each piece, which executors read from HDFS once it is closed
FIRST_BATCH_WAIT_S: Final = 200.0
BATCH_WAIT_S: Final = 60.0


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("spark-yarn-secure")
    protection = Protection(rpc="integrity", data="privacy", is_aes=True)
    secured = secure_hdfs(
        directory / "hdfs", protection, datanodes=2, properties=SHORT_TOKENS, ticket_life_s=TICKET_LIFE_S
    )
    with secured as secure:
        yarn = YarnCluster(directory / "yarn", secure.cluster, kerberos=YarnKerberos.of(secure))
        settings = {
            "spark.kerberos.principal": secure.principal,
            "spark.kerberos.keytab": str(secure.keytab),
            # As on nodes of Hadoop.
            "spark.executorEnv.HADOOP_CONF_DIR": str(yarn.configuration),
        }
        # For the driver's Python; executors have no keytab.
        environment = {
            "KRB5_CONFIG": os.environ["KRB5_CONFIG"],
            "KRB5_CLIENT_KTNAME": str(secure.keytab),
            "KRB5CCNAME": f"FILE:{directory / 'tickets'}",
        }
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
