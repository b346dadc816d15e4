"""A server process that is stopped (SIGSTOP) for longer than its bound carries nothing out that came meanwhile (rule 22)."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.codec import decode_response, encode_request
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from bmq.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from testing.patience import Patience
from testing.processes import eventually
from testing.servers import Server
from tests.e2e.conftest import ServerMaker, create_topic

pytestmark = [pytest.mark.faults, pytest.mark.bmq_only, pytest.mark.timeout(120), pytest.mark.safety]

TOPIC = "numbers"
GROUP = "readers"
# Wide: a stop counts from three quarters of it on, and a busy machine adds to a short one.
BOUND_S = 10.0
SHORT_STOP_S = 0.5
LONG_STOP_S = 15.0
COORDINATOR_WAIT_S = 20.0


@contextlib.contextmanager
def stopped(server: Server, seconds: float) -> Iterator[None]:
    """What is done inside happens while the process stands still for `seconds`."""
    server.process.pause()
    until_s = time.monotonic() + seconds
    try:
        yield
        time.sleep(max(until_s - time.monotonic(), 0))  # the length of the stop is what is tested
    finally:
        server.process.resume()


class RawClient:
    """Sends requests without waiting for their answers."""

    def __init__(self, server: Server) -> None:
        host, port = server.bootstrap.split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=Patience(20).limit_s)

    def close(self) -> None:
        self.socket.close()

    def send(self, api_key: ApiKey, version: int, message: object) -> None:
        data = encode_request(api_key, version, 1, "raw", message)
        self.socket.sendall(len(data).to_bytes(4, "big") + data)

    def produce(self, value: bytes) -> None:
        """Not idempotent: nobody would notice a second one."""
        records = bytes(encode_batch([Record(None, value, (), 1_700_000_000_000)]))
        data = [PartitionProduceData(index=0, records=records)]
        topics = [TopicProduceData(name=TOPIC, partition_data=data)]
        self.send(ApiKey.PRODUCE, 9, ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics))

    def commit(self, offset: int) -> None:
        part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=[part])]
        self.send(
            ApiKey.OFFSET_COMMIT,
            8,
            OffsetCommitRequest(group_id=GROUP, generation_id_or_member_epoch=-1, member_id="", topics=topics),
        )

    def answer(self) -> bytes:
        """Empty when the server has closed the connection."""
        try:
            head = self.socket.recv(4, socket.MSG_WAITALL)
            return head and self.socket.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
        except ConnectionResetError:
            return b""


def committed(server: Server) -> int:
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": GROUP})
    try:
        (found,) = consumer.committed([TopicPartition(TOPIC, 0)], timeout=20)
        return int(found.offset)
    finally:
        consumer.close()


def end_offset(server: Server) -> int:
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "nobody"})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=20)[1])
    finally:
        consumer.close()


def test_what_came_while_the_process_stood_still_is_dropped(
    new_server: ServerMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BMQ_LOOP_STALL_MAX_MS", str(round(BOUND_S * 1000)))
    server = new_server()
    server.start()
    create_topic(server, TOPIC, 1)
    producing, committing = RawClient(server), RawClient(server)
    producing.produce(b"0")
    assert producing.answer()

    def is_committed() -> bool:
        """False while the group's coordinator is being loaded."""
        committing.commit(45)
        _, response = decode_response(ApiKey.OFFSET_COMMIT, 8, committing.answer())
        code = response.topics[0].partitions[0].error_code
        assert code in (ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), code
        return bool(code == ErrorCode.NONE)

    eventually(is_committed, COORDINATOR_WAIT_S, "the offset is committed")

    with stopped(server, SHORT_STOP_S):
        producing.produce(b"1")
    assert producing.answer(), "a short stop changes nothing"

    with stopped(server, LONG_STOP_S):
        producing.produce(b"late")
        committing.commit(42)
        connected_meanwhile = RawClient(server)
        connected_meanwhile.produce(b"late too")
    for client in (producing, committing, connected_meanwhile):
        assert client.answer() == b"", "the connection is closed without an answer"
        client.close()
    assert (end_offset(server), committed(server)) == (2, 45)

    producer = Producer({"bootstrap.servers": server.bootstrap})
    producer.produce(TOPIC, b"2", partition=0)
    assert producer.flush(20) == 0
    assert end_offset(server) == 3
