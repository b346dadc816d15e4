"""A server that cannot use its HDFS says why: in one sentence at the start, by Kafka's error codes while it runs."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer

from bmq.dev.hdfs import HdfsCluster
from bmq.dev.java import QUICK_START_JVM_OPTIONS, java_command
from testing.hdfs import HADOOP_JARS, fresh_root, new_cluster, running
from testing.patience import Patience
from testing.processes import ManagedProcess, dying_with_us, eventually, free_port
from testing.servers import BmqServer, server_command

pytestmark = [pytest.mark.campaign("hdfs-faults"), pytest.mark.timeout(120)]

SUPERUSER_ONLY_MODE = "755"


@pytest.fixture(scope="module")
def strict_hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsCluster]:
    """One that checks permissions; its superuser is the one who runs the tests."""
    cluster = new_cluster(tmp_path_factory.mktemp("hdfs"), datanodes=1, dfs__permissions__enabled="true")
    with running(cluster):
        yield cluster


def admin(cluster: HdfsCluster, main_class: str, *arguments: str) -> None:
    """One of Hadoop's own tools."""
    command = java_command(
        f"org.apache.hadoop.{main_class}",
        arguments,
        jars=HADOOP_JARS,
        configuration=cluster.directory / "conf",
        heap_mb=128,
        options=QUICK_START_JVM_OPTIONS,
    )
    subprocess.run(
        dying_with_us(command), check=True, timeout=Patience(60).limit_s, capture_output=True, stdin=subprocess.DEVNULL
    )


def refusal(store: str, *, user: str = "", wait_s: float = 30.0, **settings: str) -> tuple[str, str]:
    """(the one sentence, everything logged before it) of a start that is refused, most often long before `wait_s`."""
    environment = {
        "PATH": "/usr/bin:/bin",
        "BMQ_START_WAIT_MS": str(int(wait_s * 1000)),
        "BMQ_LOG_FORMAT": "json",
        **({"HADOOP_USER_NAME": user} if user else {}),
        **{f"BMQ_{name}": value for name, value in settings.items()},
    }
    done = subprocess.run(
        dying_with_us(
            [server_command(), "standalone", "--listen", "127.0.0.1:0", "--rest", "127.0.0.1:0", "--store", store]
        ),
        capture_output=True,
        text=True,
        timeout=Patience(90).limit_s,
        check=False,
        stdin=subprocess.DEVNULL,
        env=environment,
    )
    assert done.returncode == 1, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr, done.stderr
    assert "bmq ready" not in done.stdout
    sentences = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("{")]
    assert len(sentences) == 1, done.stderr
    return sentences[0], done.stdout + done.stderr


def test_nobody_there_is_said_at_once_and_then_given_up() -> None:
    port = free_port()
    sentence, logged = refusal(f"hdfs://127.0.0.1:{port}/bmq", wait_s=12)
    assert f"127.0.0.1:{port}" in sentence and "within 12 s" in sentence
    assert "waiting_for_the_store" in logged


def test_waiting_for_the_store_ends_at_once_on_a_stop_signal(tmp_path: Path) -> None:
    server = BmqServer(tmp_path / "server", store=f"hdfs://127.0.0.1:{free_port()}/bmq")
    server.execute()
    server.process.wait_for_line("waiting_for_the_store", 20)
    assert server.stop() == 0


def test_a_server_waits_for_hdfs_to_come_up(tmp_path: Path) -> None:
    cluster = new_cluster(tmp_path / "hdfs", datanodes=1)
    server = BmqServer(tmp_path / "server", store=f"{cluster.url}/bmq")
    server.execute()
    try:
        server.process.wait_for_line("waiting_for_the_store", 20)
        with running(cluster):
            server.wait_until_ready()
            assert server.stop() == 0
    finally:
        server.close()


def test_something_else_on_the_port_is_named(strict_hdfs: HdfsCluster) -> None:
    http = strict_hdfs.plan.namenodes[0].http
    sentence, _ = refusal(f"hdfs://{http}/bmq", wait_s=6)  # it could still be starting
    assert str(http) in sentence


@pytest.mark.hurt
def test_permission_denied_names_user_and_path(strict_hdfs: HdfsCluster) -> None:
    sentence, _ = refusal(f"{strict_hdfs.url}/of-others/bmq", user="mallory")
    assert "mallory" in sentence and "/of-others" in sentence and "Permission denied" in sentence


@pytest.mark.hurt
def test_a_root_that_is_a_file(strict_hdfs: HdfsCluster, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    admin(strict_hdfs, "fs.FsShell", "-put", "-f", str(tmp_path / "file"), "/a-file")
    for store in (f"{strict_hdfs.url}/a-file", f"{strict_hdfs.url}/a-file/below"):
        sentence, _ = refusal(store)
        assert "a-file" in sentence and "directory" in sentence


def test_quota_and_space(strict_hdfs: HdfsCluster, tmp_path: Path) -> None:
    admin(strict_hdfs, "fs.FsShell", "-mkdir", "-p", "/few", "/small")
    admin(strict_hdfs, "hdfs.tools.DFSAdmin", "-setQuota", "1", "/few")
    sentence, _ = refusal(f"{strict_hdfs.url}/few")
    assert "quota" in sentence and "/few" in sentence
    server = BmqServer(
        tmp_path / "server",
        {"BMQ_HDFS__REPLICATION": "1", "BMQ_KAFKA": '{"offsets.topic.num.partitions": "1"}'},
        store=f"{strict_hdfs.url}/small",
    )
    server.start()
    try:
        # Less than the metadata log's open block has already: it goes on, and no file gets a block any more.
        admin(strict_hdfs, "hdfs.tools.DFSAdmin", "-setSpaceQuota", "1m", "/small")
        producer = Producer({"bootstrap.servers": server.bootstrap, "message.timeout.ms": 8_000, "log_level": 0})
        outcomes: list[KafkaError | None] = []
        producer.produce("t", b"x", on_delivery=lambda error, _: outcomes.append(error))
        producer.flush(20)
        assert len(outcomes) == 1 and outcomes[0] is not None
        admin(strict_hdfs, "hdfs.tools.DFSAdmin", "-clrSpaceQuota", "/small")

        def is_taken() -> bool:
            outcomes.clear()
            producer.produce("t", b"x", on_delivery=lambda error, _: outcomes.append(error))
            producer.flush(20)
            return outcomes == [None]

        assert eventually(is_taken, 40, "writing works again")
        assert server.stop() == 0
    finally:
        server.close()
    logged = server.log_file.read_text()
    assert "quota" in logged and "Traceback" not in logged


@pytest.mark.hurt
def test_a_root_of_another_cluster_and_a_foreign_directory(strict_hdfs: HdfsCluster, tmp_path: Path) -> None:
    root = fresh_root("cluster")
    server = BmqServer(tmp_path / "server", {"BMQ_HDFS__REPLICATION": "1"}, store=f"{strict_hdfs.url}{root}")
    server.start()
    assert server.stop() == 0
    found = re.search(r'"cluster_id": "([^"]+)"', server.log_file.read_text())
    assert found is not None
    sentence, _ = refusal(server.store, CLUSTER_ID="another-cluster-id-xyz")
    assert found[1] in sentence and "another-cluster-id-xyz" in sentence
    admin(strict_hdfs, "fs.FsShell", "-rm", "-skipTrash", f"{root}/cluster.json")
    sentence, _ = refusal(server.store)
    assert "cluster.json" in sentence


def test_an_encryption_zone_is_refused(tmp_path: Path) -> None:
    provider = f"jceks://file{tmp_path}/keys.jceks"
    cluster = new_cluster(tmp_path / "hdfs", datanodes=1, hadoop__security__key__provider__path=provider)
    (cluster.directory / "conf").mkdir(parents=True)
    admin(cluster, "crypto.key.KeyShell", "create", "secret", "-size", "128", "-provider", provider)
    with running(cluster):
        admin(cluster, "fs.FsShell", "-mkdir", "/zone")
        admin(
            cluster,
            "hdfs.tools.CryptoAdmin",
            f"-Dhadoop.security.key.provider.path={provider}",
            "-createZone",
            "-keyName",
            "secret",
            "-path",
            "/zone",
        )
        sentence, _ = refusal(f"{cluster.url}/zone/bmq")
    assert "/zone/bmq" in sentence and "lies in an encryption zone of HDFS" in sentence


def test_safe_mode_is_waited_for_and_named(strict_hdfs: HdfsCluster) -> None:
    admin(strict_hdfs, "hdfs.tools.DFSAdmin", "-safemode", "enter")
    try:
        sentence, logged = refusal(f"{strict_hdfs.url}/bmq", wait_s=12)
    finally:
        admin(strict_hdfs, "hdfs.tools.DFSAdmin", "-safemode", "leave")
    assert "safe mode" in sentence
    assert "waiting_for_the_store" in logged


@pytest.mark.hurt
def test_a_second_server_takes_over_and_the_first_one_ends(hdfs: HdfsCluster, tmp_path: Path) -> None:
    store = f"{hdfs.url}{fresh_root('two')}"
    first, second = (BmqServer(tmp_path / name, store=store) for name in ("first", "second"))
    try:
        first.start()
        producer = Producer({"bootstrap.servers": first.bootstrap, "message.timeout.ms": 5_000, "log_level": 0})
        producer.produce("t", b"x")
        assert producer.flush(20) == 0
        second.start()
        process: ManagedProcess = first.process
        assert process.wait(30) == 1
        assert "another server has taken" in process.log_of_this_run()
        assert second.stop() == 0
    finally:
        first.close()
        second.close()
