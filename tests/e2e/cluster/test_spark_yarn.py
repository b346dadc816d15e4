"""Spark jobs under spark-submit on a real YARN, and on a local cluster: executors are processes of their own.

The driver and the executors have this package from --py-files alone, and read the closed segments from HDFS.
"""

from __future__ import annotations

import json
import os
import subprocess
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bmq.dev.hdfs import HdfsCluster
from testing.hdfs import SECURED
from testing.processes import REPOSITORY, dying_with_us
from testing.servers import BmqServer
from testing.table_topics import JARS_OF_SPARK, order, produce
from tests.e2e.conftest import create_topic
from tests.support.hdfs_servers import server_on
from tests.support.spark import SPARK_ENVIRONMENT, link_spark
from tests.support.yarn import YarnCluster, running

pytestmark = [pytest.mark.campaign("spark-cluster"), pytest.mark.bmq_only, pytest.mark.timeout(700)]

TOPIC, PARTITIONS, COUNT = "orders", 2, 6_000
SEGMENT_BYTES = 1 << 20
SUBMIT_WAIT_S = 300.0


class World(NamedTuple):
    """`settings`: of spark-submit, for two executors of one core each that are given the package's archive. `environment`:
    of spark-submit. `url`: of HDFS.
    """

    yarn: YarnCluster
    url: str
    environment: Mapping[str, str]
    server: BmqServer
    values: list[bytes]
    settings: tuple[str, ...]
    directory: Path

    @property
    def bootstrap(self) -> str:
        return self.server.bootstrap

    @property
    def spark_home(self) -> Path:
        return self.directory / "spark"

    def submit(self, master: Sequence[str], script: str, *arguments: str) -> str:
        """What a script printed, on both streams: spark-submit joins them."""
        done = subprocess.run(
            self.command(master, script, *arguments),
            capture_output=True,
            text=True,
            timeout=SUBMIT_WAIT_S,
            check=False,
            cwd=self.directory,
            env=self.whole_environment,
        )
        assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-8_000:] + self.yarn.output_of_containers()
        return done.stdout

    def command(self, master: Sequence[str], script: str, *arguments: str) -> list[str]:
        submit = f"{self.spark_home}/bin/spark-submit"
        return dying_with_us([submit, *master, *self.settings, str(REPOSITORY / script), *arguments])

    @property
    def whole_environment(self) -> dict[str, str]:
        return {
            **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            **self.yarn.environment,
            **SPARK_ENVIRONMENT,
            "SPARK_SUBMIT_OPTS": jvm_options(self.yarn),
            "SPARK_HOME": str(self.spark_home),
            "TZ": "UTC",
            **self.environment,
        }

    @property
    def expected_scan(self) -> list[list[int]]:
        own = {partition: self.values[partition::PARTITIONS] for partition in range(PARTITIONS)}
        return [[p, len(own[p]), sum(range(len(own[p]))), sum(map(len, own[p]))] for p in own]

    def check(self, printed: str) -> None:
        """What spark_executors_job found is what was produced, and two executors found it with the shipped package."""
        found = document(printed)
        assert found["scan"] == self.expected_scan
        offsets = sum(each[2] for each in self.expected_scan)
        assert found["table"]["sums"] == [COUNT, sum(range(COUNT)), offsets]
        assert found["table"]["batches"] >= 3
        executors = {name: count for name, count in found["tasks"].items() if name != "driver"}
        assert len(executors) == 2 and min(executors.values()) > 0, executors
        assert len(found["origins"]) == 2
        assert all(origin.endswith("/bmq.zip/bmq/__init__.py") for origin in found["origins"]), found["origins"]


def document(printed: str) -> Any:
    """The JSON behind what librdkafka and others may have logged."""
    lines = printed.splitlines()
    return json.loads("\n".join(lines[max(place for place, line in enumerate(lines) if line.startswith("{")) :]))


ON_YARN = ("--master", "yarn", "--deploy-mode", "client", "--num-executors", "2")
ON_LOCAL_CLUSTER = ("--master", "local-cluster[2,1,1024]")


def jvm_options(yarn: YarnCluster) -> str:
    return " ".join((SPARK_ENVIRONMENT["SPARK_SUBMIT_OPTS"], *yarn.jvm_options))


@contextmanager
def spark_world(
    directory: Path,
    hdfs: HdfsCluster,
    yarn: YarnCluster,
    settings: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[World]:
    """`yarn` is started here, and a server on HDFS with a topic of which most is in closed segments. `settings`: of Spark."""
    server = server_on(hdfs, directory / "server", "/spark-yarn", {"BMQ_HDFS__REPLICATION": "2"})
    access = SECURED.get(hdfs)
    url = hdfs.url if access is None else access.url
    with running(yarn):
        server.start()
        try:
            create_topic(server, TOPIC, PARTITIONS, {"segment.bytes": str(SEGMENT_BYTES)})
            values = [order(number, fill="x" * (number % 1_000)) for number in range(COUNT)]
            produce(server.bootstrap, TOPIC, [*values], PARTITIONS)
            archive = directory / "bmq.zip"
            with zipfile.ZipFile(archive, "w") as package:
                for path in sorted((REPOSITORY / "bmq").rglob("*.py")):
                    package.write(path, path.relative_to(REPOSITORY))
            link_spark(directory / "spark")
            found = {
                # As on nodes that have Spark: it is not uploaded.
                "spark.yarn.jars": f"local:{directory}/spark/jars/*",
                "spark.driver.host": "127.0.0.1",
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.executorEnv.SPARK_LOCAL_IP": "127.0.0.1",
                "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": "127.0.0.1",
                "spark.yarn.am.memory": "256m",
                "spark.executor.memory": "512m",
                "spark.executor.cores": "1",
                "spark.cores.max": "2",
                "spark.driver.memory": "600m",
                "spark.executor.extraJavaOptions": jvm_options(yarn),
                "spark.yarn.am.extraJavaOptions": jvm_options(yarn),
                "spark.ui.enabled": "false",
                "spark.sql.shuffle.partitions": "2",
                # Nothing begins before both executors are there.
                "spark.scheduler.minRegisteredResourcesRatio": "1",
                "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
                **(settings or {}),
            }
            options = [word for name, value in found.items() for word in ("--conf", f"{name}={value}")]
            given = (*options, "--py-files", str(archive), "--jars", JARS_OF_SPARK)
            yield World(yarn, url, environment or {}, server, values, given, directory)
            assert server.is_running
        finally:
            server.close()


@pytest.fixture(scope="module")
def world(hdfs: HdfsCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("spark-yarn")
    with spark_world(directory, hdfs, YarnCluster(directory / "yarn", hdfs)) as found:
        yield found


def test_a_job_s_command_runs_unchanged_on_yarn(world: World) -> None:
    printed = world.submit(
        ON_YARN, "bmq/cli/main.py", "spark", "stats", TOPIC, "--bootstrap", world.bootstrap, "--json"
    )
    assert f"{COUNT} of {COUNT} offsets" not in printed, "progress is left out"
    report = document(printed)
    found = [
        [
            each["partition"],
            each["records"],
            each["value_bytes"],
            sum(codec["records"] for codec in each["codecs"].values()),
        ]
        for each in report["topics"][0]["partitions"]
    ]
    assert found == [[p, count, size, count] for p, count, _, size in world.expected_scan]


def test_segments_are_read_and_tables_written_by_executors_on_yarn(world: World) -> None:
    directory = f"{world.url}/spark-yarn-tables"
    world.check(world.submit(ON_YARN, "tests/e2e/spark_executors_job.py", world.bootstrap, TOPIC, directory))


def test_the_same_on_a_local_cluster(world: World) -> None:
    directory = (world.directory / "tables").as_uri()
    printed = world.submit(ON_LOCAL_CLUSTER, "tests/e2e/spark_executors_job.py", world.bootstrap, TOPIC, directory)
    world.check(printed)
