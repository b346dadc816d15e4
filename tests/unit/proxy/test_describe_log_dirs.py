"""DescribeLogDirs and AlterReplicaLogDirs: every version over a socket."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

import pytest

from bmq.log.partition_log import TopicPartition
from bmq.protocol.apis import APIS, ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from bmq.protocol.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from tests.unit.proxy.harness import TOPIC_ID, Client, Proxy

pytestmark = pytest.mark.unit

DIRECTORY = "hdfs://namenode/bmq"


@dataclass(frozen=True)
class SomeLog:
    directory: str = DIRECTORY

    def sizes(self) -> Iterable[tuple[TopicPartition, int]]:
        yield TopicPartition(TOPIC_ID, 1), 11
        yield TopicPartition(TOPIC_ID, 0), 7
        yield TopicPartition(UUID(int=99), 0), 1  # of a topic that is gone


def versions(api_key: ApiKey) -> range:
    return range(APIS[api_key].version_min, APIS[api_key].version_max + 1)


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_LOG_DIRS))
async def test_a_node_that_owns_nothing_has_one_directory(client: Client, version: int) -> None:
    """Clients take none at all for a lack of rights."""
    answer = await client.ask(ApiKey.DESCRIBE_LOG_DIRS, version, DescribeLogDirsRequest(topics=None))
    assert answer.error_code == ErrorCode.NONE
    (directory,) = answer.results
    assert (directory.error_code, list(directory.topics)) == (ErrorCode.NONE, [])
    assert (directory.total_bytes, directory.usable_bytes) == (-1, -1)


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_LOG_DIRS))
async def test_what_a_node_owns_is_told_with_its_size(proxy: Proxy, client: Client, version: int) -> None:
    proxy.services.own_log = SomeLog()
    one = DescribableLogDirTopic(topic="t", partitions=[1, 5])
    none = DescribableLogDirTopic(topic="nope", partitions=[0])
    for topics, expected in ((None, {0: 7, 1: 11}), ([one, none], {1: 11}), ([none], {}), ([], {})):
        answer = await client.ask(ApiKey.DESCRIBE_LOG_DIRS, version, DescribeLogDirsRequest(topics=topics))
        (directory,) = answer.results
        assert directory.log_dir == DIRECTORY
        assert {topic.name for topic in directory.topics} == ({"t"} if expected else set())
        sizes = {p.partition_index: p.partition_size for topic in directory.topics for p in topic.partitions}
        assert sizes == expected


@pytest.mark.parametrize("version", versions(ApiKey.ALTER_REPLICA_LOG_DIRS))
async def test_everything_is_in_the_only_directory_already(proxy: Proxy, client: Client, version: int) -> None:
    proxy.services.own_log = SomeLog()
    topics = [
        AlterReplicaLogDirTopic(name="t", partitions=[0, 99]),
        AlterReplicaLogDirTopic(name="nope", partitions=[0]),
    ]
    request = AlterReplicaLogDirsRequest(
        dirs=[AlterReplicaLogDir(path=path, topics=topics) for path in (DIRECTORY, "/elsewhere")]
    )
    answer = await client.ask(ApiKey.ALTER_REPLICA_LOG_DIRS, version, request)
    codes = [p.error_code for result in answer.results for p in result.partitions]
    missing, elsewhere = ErrorCode.REPLICA_NOT_AVAILABLE, ErrorCode.LOG_DIR_NOT_FOUND
    assert codes == [ErrorCode.NONE, missing, missing, elsewhere, elsewhere, elsewhere]
