"""Requests in short, and images to decide against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from bmq.metadata.broker_configs import BrokerConfigs, static_configs
from bmq.metadata.image import MetadataImage, Node
from bmq.metadata.state import MetadataState, registration_record
from bmq.protocol.messages.alter_configs_request import AlterableConfig as FullConfig
from bmq.protocol.messages.alter_configs_request import AlterConfigsRequest
from bmq.protocol.messages.alter_configs_request import AlterConfigsResource as FullResource
from bmq.protocol.messages.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from bmq.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from bmq.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from bmq.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from bmq.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from bmq.protocol.metadata_records import MetadataRecord

NODE = Node(1, "127.0.0.1", 9092)
BROKER = BrokerConfigs(static=static_configs(NODE, {}))


class Cluster:
    """A state with live nodes; `take` replays records as a log would."""

    def __init__(self, *nodes: Node, settings: Mapping[str, str] | None = None) -> None:
        self.state = MetadataState("cluster", NODE.node_id, static_configs(NODE, settings or {}))
        self.offset = 0
        for node in nodes or (NODE,):
            self.take([registration_record(node, UUID(int=node.node_id + 100), 0)])

    def take(self, records: Sequence[MetadataRecord]) -> None:
        for record in records:
            self.state.replay(record)
        self.offset += len(records)

    @property
    def image(self) -> MetadataImage:
        return self.state.image_at(self.offset)

    @property
    def broker(self) -> BrokerConfigs:
        return self.state.broker_configs_of(self.image.broker_configs)


def topic(
    name: str,
    partitions: int = 1,
    replication_factor: int = 1,
    *,
    assignments: Sequence[tuple[int, tuple[int, ...]]] = (),
    configs: Mapping[str, str | None] | None = None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        assignments=[CreatableReplicaAssignment(partition_index=p, broker_ids=b) for p, b in assignments],
        configs=[CreatableTopicConfig(name=n, value=v) for n, v in (configs or {}).items()],
    )


def create(*topics: CreatableTopic, validate_only: bool = False, timeout_ms: int = 5_000) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=topics, validate_only=validate_only, timeout_ms=timeout_ms)


def delete(*topics: str | UUID | tuple[str | None, UUID | None]) -> DeleteTopicsRequest:
    states = []
    for wanted in topics:
        match wanted:
            case str():
                states.append(DeleteTopicState(name=wanted))
            case UUID():
                states.append(DeleteTopicState(topic_id=wanted))
            case (name, topic_id):
                states.append(DeleteTopicState(name=name, topic_id=topic_id))
    return DeleteTopicsRequest(topics=states, timeout_ms=5_000)


def grow(
    name: str, count: int, assignments: Sequence[tuple[int, ...]] | None = None, *, validate_only: bool = False
) -> CreatePartitionsRequest:
    given = None if assignments is None else [CreatePartitionsAssignment(broker_ids=b) for b in assignments]
    wanted = CreatePartitionsTopic(name=name, count=count, assignments=given)
    return CreatePartitionsRequest(topics=[wanted], timeout_ms=5_000, validate_only=validate_only)


def describe(
    *resources: tuple[int, str, Sequence[str] | None], synonyms: bool = False, documentation: bool = False
) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
            for kind, name, keys in resources
        ],
        include_synonyms=synonyms,
        include_documentation=documentation,
    )


def incremental(
    kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False
) -> IncrementalAlterConfigsRequest:
    configs = [AlterableConfig(name=n, config_operation=operation, value=v) for n, operation, v in changes]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)


def full(kind: int, name: str, *configs: tuple[str, str | None]) -> AlterConfigsRequest:
    given = [FullConfig(name=n, value=v) for n, v in configs]
    return AlterConfigsRequest(resources=[FullResource(resource_type=kind, resource_name=name, configs=given)])
