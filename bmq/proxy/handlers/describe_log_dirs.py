"""DescribeLogDirs and AlterReplicaLogDirs: the one directory of all nodes, with this node's partitions (KIP-113, KIP-827).

The directory is the root of the shared store. Only its owner reports a partition, with the bytes of its log. So the sizes of all
nodes add up to the bytes of all logs, not counting the store's replicas. A partition that has files and has not been started yet
is left out, because its size is unknown. Replicas cannot be moved.
"""

from __future__ import annotations

from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.alter_replica_log_dirs_request import AlterReplicaLogDirsRequest
from bmq.protocol.messages.alter_replica_log_dirs_response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from bmq.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from bmq.protocol.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from bmq.protocol.request_context import RequestContext
from bmq.protocol.turns import Pace
from bmq.proxy.dispatch import handles
from bmq.proxy.services import Services


@handles(ApiKey.DESCRIBE_LOG_DIRS)
async def describe_log_dirs(
    request: DescribeLogDirsRequest, context: RequestContext, services: Services
) -> DescribeLogDirsResponse:
    """Answer DescribeLogDirs 1-5. It always has the directory, because clients take an empty answer for missing rights."""
    wanted: dict[str, set[int]] | None = None if request.topics is None else {}
    pace = Pace()
    for asked in request.topics or ():
        assert wanted is not None
        wanted[asked.topic] = set(asked.partitions)
        if pace.is_over():
            await context.turns.next()
    topics_by_id = services.controller.image.topics_by_id
    found: dict[str, list[DescribeLogDirsPartition]] = {}
    for key, size_bytes in tuple(services.own_log.sizes()):
        if pace.is_over():
            await context.turns.next()
        topic = topics_by_id.get(key.topic_id)
        if topic is not None and (wanted is None or key.partition in wanted.get(topic.name, ())):
            one = DescribeLogDirsPartition(partition_index=key.partition, partition_size=size_bytes)
            found.setdefault(topic.name, []).append(one)
    return DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResult(
                log_dir=services.own_log.directory,
                topics=[
                    DescribeLogDirsTopic(name=name, partitions=sorted(ones, key=lambda one: one.partition_index))
                    for name, ones in sorted(found.items())
                ],
            )
        ]
    )


@handles(ApiKey.ALTER_REPLICA_LOG_DIRS)
async def alter_replica_log_dirs(
    request: AlterReplicaLogDirsRequest, context: RequestContext, services: Services
) -> AlterReplicaLogDirsResponse:
    """Answer AlterReplicaLogDirs 1-2: every partition is in the only directory already."""
    topics = services.controller.image.topics

    def code(path: str, name: str, partition: int) -> ErrorCode:
        if path != services.own_log.directory:
            return ErrorCode.LOG_DIR_NOT_FOUND
        topic = topics.get(name)
        is_there = topic is not None and topic.partition(partition) is not None
        return ErrorCode.NONE if is_there else ErrorCode.REPLICA_NOT_AVAILABLE

    results = []
    pace = Pace()
    for directory in request.dirs:
        for topic in directory.topics:
            partitions = []
            for partition in topic.partitions:
                error_code = code(directory.path, topic.name, partition)
                partitions.append(AlterReplicaLogDirPartitionResult(partition_index=partition, error_code=error_code))
                if pace.is_over():
                    await context.turns.next()
            results.append(AlterReplicaLogDirTopicResult(topic_name=topic.name, partitions=partitions))
            if pace.is_over():
                await context.turns.next()
        if pace.is_over():
            await context.turns.next()
    return AlterReplicaLogDirsResponse(results=results)
