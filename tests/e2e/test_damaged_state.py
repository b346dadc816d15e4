"""A byte of the state is flipped on disk: the server says so and ends, or keeps a shard offline, until the loss is accepted."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from bmq.coordinator.runtime.directory import shard_of
from testing.patience import Patience
from testing.servers import BmqServer, bmq_command
from tests.e2e.conftest import create_topic

pytestmark = [pytest.mark.campaign("kills"), pytest.mark.bmq_only, pytest.mark.timeout(300), pytest.mark.safety]

METADATA = "topics/00000000-0000-0000-0000-000000000001/0"
SHARDS = 50
GROUP = "damaged"
COMMITS = 1_001
"""A stop saves the state of a shard that took so many."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[BmqServer]:
    made = BmqServer(tmp_path / "data")
    yield made
    made.close()


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    mode = path.stat().st_mode
    path.chmod(0o644)
    path.write_bytes(data)
    path.chmod(mode)


def snapshot_in(directory: Path) -> Path:
    """The newest, which the newest manifest names."""
    return max(directory.glob("*/snapshot.*"))


def accept_loss(server: BmqServer, partition: str, *options: str) -> list[str]:
    command = [bmq_command(), "log", "accept-loss", partition, "--data", str(server.directory), *options]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=Patience(30).limit_s
    ).stdout.splitlines()


def refused_start(server: BmqServer) -> str:
    """The sentence with which a start ends."""
    server.execute()
    assert server.process.wait(30) == 1
    sentences = [line for line in server.log_file.read_text().splitlines() if line.startswith("bmq: ")]
    return sentences[-1]


def topics(server: BmqServer) -> set[str]:
    return set(AdminClient({"bootstrap.servers": server.bootstrap}).list_topics(timeout=10).topics)


@pytest.mark.parametrize("harm", [flip, Path.unlink])
def test_a_lost_metadata_snapshot_ends_the_start_until_it_is_accepted(
    server: BmqServer, harm: Callable[[Path], None]
) -> None:
    for name in ("first", "second"):  # each stop saves a snapshot; the second one replaces the first one's records
        server.start()
        create_topic(server, name)
        assert server.stop() == 0
    harm(snapshot_in(server.directory / METADATA))
    for _ in range(2):
        sentence = refused_start(server)
        assert "snapshot" in sentence and f"bmq log accept-loss {METADATA} --dry-run" in sentence
    dry_run = accept_loss(server, METADATA, "--dry-run")
    assert any(line.startswith("everything below offset") for line in dry_run)
    assert "topics that are left: 1 (second)" in dry_run
    assert refused_start(server) == sentence  # a dry run decides nothing
    assert any(line.startswith("accepted, and written down") for line in accept_loss(server, METADATA))
    server.start()
    assert topics(server) == {"second"}
    assert "topics_unknown_to_the_metadata" in server.log_file.read_text()
    create_topic(server, "third")
    assert server.stop() == 0
    server.start()  # the state is whole again, as it is now
    assert topics(server) == {"second", "third"}


@pytest.mark.faults
def test_a_lost_metadata_log_is_not_begun_anew(server: BmqServer, tmp_path: Path) -> None:
    server.start()
    create_topic(server, "first")
    producer = Producer({"bootstrap.servers": server.bootstrap})
    producer.produce("first", b"kept")
    assert producer.flush(20) == 0
    assert server.stop() == 0
    (server.directory / METADATA).rename(tmp_path / "lost")
    sentence = refused_start(server)
    assert "ends at offset 0, but there are files of 1 topics" in sentence
    assert f"bmq log accept-loss {METADATA} --end 0 --dry-run" in sentence
    # The directory is found again: nothing had to be decided, and nothing was done to it.
    kept = server.directory / METADATA
    kept.rename(tmp_path / "empty")
    (tmp_path / "lost").rename(kept)
    server.start()
    assert topics(server) == {"first"}
    assert server.stop() == 0
    kept.rename(tmp_path / "lost")
    refused_start(server)
    accept_loss(server, METADATA, "--end", "0")
    server.start()
    assert topics(server) == set()


def test_a_lost_group_shard_is_kept_offline_and_harms_no_other(server: BmqServer) -> None:
    def consumer(group: str) -> Consumer:
        return Consumer({"bootstrap.servers": server.bootstrap, "group.id": group, "enable.auto.commit": False})

    def commit(group: str, *offsets: int) -> None:
        committer = consumer(group)
        for offset in offsets:
            committer.commit(offsets=[TopicPartition("t", 0, offset)], asynchronous=False)
        committer.close()

    def committed(group: str, timeout_s: float = 30) -> int:
        reader = consumer(group)
        try:
            return int(reader.committed([TopicPartition("t", 0)], timeout=timeout_s)[0].offset)
        finally:
            reader.close()

    harmed = shard_of(GROUP, SHARDS)
    other = next(name for name in map("other-{}".format, range(99)) if shard_of(name, SHARDS) != harmed)
    for number in range(2):
        server.start()
        if number == 0:
            create_topic(server, "t")
        commit(other, 7)
        commit(GROUP, *range(COMMITS))
        assert server.stop() == 0
    # A stop may come before every partition has been opened for the first time.
    offsets_id = max((server.directory / "topics").iterdir(), key=lambda path: len(list(path.iterdir()))).name
    partition = f"topics/{offsets_id}/{harmed}"
    flip(snapshot_in(server.directory / partition))
    server.start()
    assert committed(other) == 7
    with pytest.raises(KafkaException):
        committed(GROUP, timeout_s=5)
    assert f"bmq log accept-loss {partition} --dry-run" in server.log_file.read_text()
    assert server.stop() == 0
    accept_loss(server, partition)
    server.start()
    assert committed(GROUP) == COMMITS - 1  # the last commits were behind the snapshot's records
    assert committed(other) == 7
