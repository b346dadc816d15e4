"""Spark jobs on a kerberized YARN and HDFS: the driver has a keytab, executors the tokens that the driver got.

The tests are those of the open cluster, and a stream that runs for longer than tickets and tokens live.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
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

pytestmark = [pytest.mark.campaign("spark-cluster"), pytest.mark.bmq_only, pytest.mark.timeout(700)]

TICKET_LIFE_S: Final = 120
SHORT_TOKENS: Final = {
    "dfs.namenode.delegation.token.renew-interval": "60000",
    "dfs.namenode.delegation.token.max-lifetime": "120000",
}
STREAM = "stream"
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


def test_a_stream_outlives_tickets_tokens_and_its_driver(world: World) -> None:
    """Batches go on when all that the job began with has ended, and the next job goes on where a killed one was."""
    create_topic(world.server, STREAM, 1, {"segment.bytes": str(1 << 20)})
    job = "tests/e2e/spark_stream_job.py"
    arguments = (world.bootstrap, STREAM, f"{world.url}/spark-yarn-stream")
    told = world.directory / "stream.out"
    produced = 0

    def produce_more() -> None:
        nonlocal produced
        numbers = range(produced, produced + PIECE)
        produce(world.bootstrap, STREAM, [order(number, fill=FILL) for number in numbers], 1)
        produced += PIECE

    def rows() -> int:
        lines = [json.loads(line) for line in told.read_text().splitlines() if line.startswith('{"rows"')]
        return max((int(line["rows"]) for line in lines), default=0)

    def until_written(wait_s: float) -> None:
        patience = Patience(wait_s)
        while rows() < produced:
            assert running.poll() is None, told.read_text()[-8_000:] + world.yarn.output_of_containers()
            assert not patience.is_over(), told.read_text()[-8_000:] + world.yarn.output_of_containers()
            time.sleep(0.2)

    produce_more()
    with told.open("wb") as output:
        running = subprocess.Popen(
            world.command(ON_YARN, job, *arguments, str(TRIGGER_S)),
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=world.directory,
            env=world.whole_environment,
            start_new_session=True,
        )
    try:
        until_written(FIRST_BATCH_WAIT_S)
        # The subject is time itself: what the job was given when it began ends meanwhile.
        ends_s = time.monotonic() + TICKET_LIFE_S + 10
        while time.monotonic() < ends_s:
            produce_more()
            until_written(BATCH_WAIT_S)
        produce_more()
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    produce_more()
    found = world.submit(ON_YARN, job, *arguments, "0")
    assert document(found)["sums"] == [produced, sum(range(produced)), produced]
