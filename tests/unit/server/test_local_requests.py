"""Kafka requests made inside of a whole server, for a client of another protocol: its handlers, rights and files."""

from __future__ import annotations

from typing import Any

import pytest

from bmq.admin.fetched_records import ALL
from bmq.admin.record_browser import Browse, RecordBrowser
from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from bmq.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from bmq.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from bmq.protocol.messages.list_groups_request import ListGroupsRequest
from bmq.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from bmq.proxy.local_requests import LocalRequests
from bmq.server.standalone import StandaloneServer
from tests.unit.server.test_standalone import Ground

pytestmark = pytest.mark.unit

HOST = "10.0.0.9"
AUTHORIZER: Any = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:root",
}


async def run_aside(work: Any) -> Any:
    return work()


def requests_of(server: StandaloneServer) -> LocalRequests:
    roles = server.inspect()
    assert roles is not None
    return LocalRequests(roles.services, run_aside=run_aside)


def produce(topic: str, *values: bytes) -> ProduceRequest:
    data = bytes(encode_batch([Record(None, value, (), 1_000) for value in values]))
    return ProduceRequest(
        acks=-1,
        timeout_ms=5_000,
        topic_data=[TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=data)])],
    )


def fetch(topic: str) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=2**20)
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=100,
        min_bytes=1,
        max_bytes=2**20,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[partition])],
    )


def test_records_that_were_written_are_read_from_memory_and_after_a_restart_from_files() -> None:
    ground = Ground()

    async def read(server: StandaloneServer) -> list[bytes | None]:
        ask = requests_of(server).ask

        async def asked(api_key: ApiKey, request: Any) -> Any:
            return await ask(api_key, request, principal="User:a", host=HOST)

        found = await RecordBrowser(run_aside).browse(asked, Browse("t", {0: 0}, ALL, 100, 1, 0))
        assert found.is_end and found.positions == {0: 3} and found.problems == {}
        return [one.record.value for one in found.records]

    async def main() -> None:
        server = await ground.start()
        await ground.make_topic(server, "t")
        response = await requests_of(server).ask(
            ApiKey.PRODUCE, produce("t", b"a", b"b", b"c"), principal="User:a", host=HOST
        )
        (answer,) = response.responses[0].partition_responses
        assert (answer.error_code, answer.base_offset) == (0, 0)
        assert await read(server) == [b"a", b"b", b"c"]
        await server.stop()
        again = await ground.start()
        assert await read(again) == [b"a", b"b", b"c"]
        await again.stop()

    ground.run(main)


def test_requests_of_the_controller_and_of_coordinators_are_answered() -> None:
    ground = Ground()

    async def main() -> None:
        server = await ground.start()
        ask = requests_of(server).ask
        topics = CreateTopicsRequest(
            topics=[CreatableTopic(name="made", num_partitions=2, replication_factor=-1)], timeout_ms=5_000
        )
        made = await ask(ApiKey.CREATE_TOPICS, topics, principal="User:a", host=HOST)
        assert [(one.name, one.error_code, one.num_partitions) for one in made.topics] == [("made", 0, 2)]
        configs = DescribeConfigsRequest(
            resources=[DescribeConfigsResource(resource_type=2, resource_name="made", configuration_keys=None)]
        )
        described = await ask(ApiKey.DESCRIBE_CONFIGS, configs, principal="User:a", host=HOST)
        assert "retention.ms" in [one.name for one in described.results[0].configs]
        groups = ListGroupsRequest(states_filter=[], types_filter=[])
        assert (await ask(ApiKey.LIST_GROUPS, groups, principal="User:a", host=HOST)).error_code == 0
        await server.stop()

    ground.run(main)


def test_the_rights_are_those_of_the_client() -> None:
    ground = Ground()

    async def main() -> None:
        server = await ground.start(kafka=AUTHORIZER)
        ask = requests_of(server).ask
        await ground.make_topic(server, "t")
        written = await ask(ApiKey.PRODUCE, produce("t", b"a"), principal="User:alice", host=HOST)
        assert written.responses[0].partition_responses[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        read = await ask(ApiKey.FETCH, fetch("t"), principal="User:alice", host=HOST)
        assert read.responses[0].partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        written = await ask(ApiKey.PRODUCE, produce("t", b"a"), principal="User:root", host=HOST)
        assert written.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        read = await ask(ApiKey.FETCH, fetch("t"), principal="User:root", host=HOST)
        assert read.responses[0].partitions[0].high_watermark == 1
        # Whoever has no address is not taken for this server itself.
        own = await ask(ApiKey.PRODUCE, produce("t", b"a"), principal="User:bmq", host="")
        assert own.responses[0].partition_responses[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        await server.stop()

    ground.run(main)


class _Part:
    """A part of a file of which only `there` bytes exist; `error`: is raised in place of bytes."""

    def __init__(self, there: bytes, length: int, error: OSError | None = None) -> None:
        self._there, self._length, self._error = there, length, error

    def __len__(self) -> int:
        return self._length

    def fill(self, buffer: memoryview, position: int) -> int:
        if self._error is not None:
            raise self._error
        found = self._there[position : position + min(3, len(buffer))]  # in pieces
        buffer[: len(found)] = found
        return len(found)


@pytest.mark.parametrize(
    ("part", "why"), [(_Part(b"ab", 5), "shorter"), (_Part(b"", 5, OSError(5, "I/O error")), "I/O")]
)
def test_a_file_that_cannot_be_read_is_one_sentence(part: _Part, why: str) -> None:
    ground = Ground()

    async def main() -> None:
        server = await ground.start()
        requests = requests_of(server)
        assert await requests.joined([b"ab", _Part(b"cdefg", 5), memoryview(b"h")]) == b"abcdefgh"  # type: ignore[list-item]
        with pytest.raises(KafkaError, match=why) as failure:
            await requests.joined([part])  # type: ignore[list-item]
        assert failure.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        await server.stop()

    ground.run(main)
