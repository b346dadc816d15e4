"""A full disk: produces fail with KAFKA_STORAGE_ERROR, reads go on, and all is well again once there is space."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from testing import wire
from testing.processes import eventually
from testing.servers import BmqServer
from testing.wire import WireClient
from tests.e2e.conftest import assert_no_traceback, create_topic

pytestmark = [pytest.mark.faults, pytest.mark.bmq_only, pytest.mark.timeout(120), pytest.mark.safety]

DISK_MIB = 48
RESERVE_MIB = 16
RECORD_BYTES = 400_000
TOPIC = "filling"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system in memory of DISK_MIB. Mounting needs root: without it this test fails rather than says nothing."""
    directory = tmp_path / "small-disk"
    directory.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(directory)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.fail(f"a small tmpfs cannot be mounted (this test needs root): {mounted.stderr.strip()}")
    yield directory
    subprocess.run(["umount", str(directory)], check=True)


@pytest.fixture
def server_on_small_disk(small_disk: Path, tmp_path: Path) -> Iterator[BmqServer]:
    server = BmqServer(small_disk / "data")
    server.log_file = tmp_path / "server.log"
    server.start()
    yield server
    server.close()
    assert_no_traceback(server)


def record_of(number: int) -> bytes:
    return b"%08d" % number + bytes([number % 251]) * RECORD_BYTES


def read_all(server: BmqServer, count: int) -> list[bytes]:
    consumer = Consumer(
        {"bootstrap.servers": server.bootstrap, "group.id": "reader", "enable.auto.commit": False, "check.crcs": True}
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    values: list[bytes] = []

    def complete() -> bool:
        for message in consumer.consume(100, timeout=0.5):
            assert message.error() is None, message.error()
            values.append(message.value())
        return len(values) >= count

    eventually(complete, 30, f"{count} records", interval_s=0)
    consumer.close()
    return values


def test_full_disk_refuses_produces_serves_reads_and_recovers(
    small_disk: Path, server_on_small_disk: BmqServer
) -> None:
    server = server_on_small_disk
    create_topic(server, TOPIC)
    reserve = small_disk / "reserve"
    reserve.write_bytes(bytes(RESERVE_MIB << 20))
    acknowledged: list[bytes] = []

    def produce(client: WireClient) -> int:
        """The error code; an acknowledged record is at the offset of its number."""
        value = record_of(len(acknowledged))
        answer = client.produce(TOPIC, wire.record_batch([value]))
        if answer.error_code == wire.NONE:
            assert answer.base_offset == len(acknowledged), "a refused record took an offset"
            acknowledged.append(value)
        return answer.error_code

    with WireClient(server.port) as client:
        while (error_code := produce(client)) == wire.NONE:
            assert len(acknowledged) < (DISK_MIB << 20) // RECORD_BYTES, "the disk never became full"
        assert error_code == wire.KAFKA_STORAGE_ERROR
        assert len(acknowledged) > 10
        assert [produce(client) for _ in range(3)] == [wire.KAFKA_STORAGE_ERROR] * 3
        assert read_all(server, len(acknowledged)) == acknowledged

        reserve.unlink()
        eventually(lambda: produce(client) == wire.NONE, 30, "produces are accepted again")
        assert [produce(client) for _ in range(5)] == [wire.NONE] * 5
    assert read_all(server, len(acknowledged)) == acknowledged

    server.kill()
    server.start()
    assert read_all(server, len(acknowledged)) == acknowledged
    with WireClient(server.port) as client:
        assert produce(client) == wire.NONE


def test_server_that_starts_on_a_full_disk_comes_up_once_there_is_space(
    small_disk: Path, server_on_small_disk: BmqServer
) -> None:
    """Killed while its disk is full, it may refuse to start, with one sentence; with space it has everything."""
    server = server_on_small_disk
    create_topic(server, TOPIC)
    reserve = small_disk / "reserve"
    reserve.write_bytes(bytes(RESERVE_MIB << 20))
    acknowledged: list[bytes] = []
    with WireClient(server.port) as client:
        while True:
            value = record_of(len(acknowledged))
            if client.produce(TOPIC, wire.record_batch([value])).error_code != wire.NONE:
                break
            acknowledged.append(value)
    server.kill()
    reserve.unlink()
    server.start()
    assert read_all(server, len(acknowledged))[: len(acknowledged)] == acknowledged
    with WireClient(server.port) as client:
        eventually(
            lambda: client.produce(TOPIC, wire.record_batch([b"again"])).error_code == wire.NONE, 30, "produces work"
        )
